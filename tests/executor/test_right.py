"""Kernels that are right give the right values, under every schedule, and no finding."""

import numpy as np
import pytest

from kernelwright.executor import Options, Uninitialised

SEEDS = (0, 1, 2)


def executed(kernel, grid, block, arguments, seed, shared_bytes=0):
    run = kernel(grid, block, arguments, shared_bytes=shared_bytes, options=Options(seed=seed, deadline_s=30))
    assert run.status == "ok"
    assert [str(f) for f in run.findings] == []
    return run


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_add(right, rng, seed):
    x, y, out = (rng.standard_normal(1000, np.float32) for _ in range(3))
    executed(right["add"], 4, 256, [x, y, Uninitialised(out), 1000], seed)
    assert np.array_equal(out, x + y)


def test_vector_accesses(right, rng, seed):
    x = rng.standard_normal((100, 4), np.float32)
    out = np.empty_like(x)
    executed(right["add4"], 2, 64, [x, Uninitialised(out), 100], seed)
    assert np.array_equal(out, x + np.array([1, 2, 3, 4], np.float32))


def test_sum_by_shuffles_and_atomics(right, rng, seed):
    x, out = rng.standard_normal(10000, np.float32), np.zeros(1, np.float32)
    executed(right["sum"], 8, 256, [x, out, 10000], seed)
    assert out[0] == pytest.approx(x.astype(np.float64).sum(), abs=1e-3)


def test_tree_sum_in_dynamic_shared_memory(right, rng, seed):
    x, out = rng.standard_normal(700, np.float32), np.empty(3, np.float32)
    executed(right["tree_sum"], 3, 256, [x, Uninitialised(out), 700], seed, shared_bytes=1024)
    assert out.sum() == pytest.approx(x.astype(np.float64).sum(), abs=1e-3)


def test_last_block_adds_up(right, rng, seed):
    x, parts, out = rng.standard_normal(2000, np.float32), np.empty(7, np.float32), np.empty(1, np.float32)
    executed(right["last_block_sum"], 7, 32, [x, Uninitialised(parts), Uninitialised(out), 2000], seed)
    assert out[0] == pytest.approx(x.astype(np.float64).sum(), abs=1e-3)


def test_transpose_has_no_bank_conflicts(right, rng, seed):
    x = rng.standard_normal((70, 45), np.float32)
    out = np.empty((45, 70), np.float32)
    run = executed(right["transpose"], (2, 3), (32, 8), [x, Uninitialised(out), 70, 45], seed)
    assert np.array_equal(out, x.T)
    assert run.counters.total("shared", "units") == run.counters.total("shared", "requests")


def test_matmul(right, rng, seed):
    a, b = rng.standard_normal((33, 50), np.float32), rng.standard_normal((50, 20), np.float32)
    c = np.empty((33, 20), np.float32)
    executed(right["matmul"], (2, 3), (16, 16), [a, b, Uninitialised(c), 33, 20, 50], seed)
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-5)


def test_histogram(right, rng, seed):
    x, out = rng.integers(0, 1000, 5000, np.int32), np.zeros(64, np.int32)
    executed(right["histogram"], 3, 128, [x, out, 5000], seed)
    assert np.array_equal(out, np.bincount(x & 63, minlength=64))


def test_scan(right, rng, seed):
    x, out = rng.integers(-50, 50, 256, np.int32), np.empty(256, np.int32)
    executed(right["scan"], 1, 256, [x, Uninitialised(out)], seed)
    assert np.array_equal(out, np.cumsum(x))


def test_sort(right, rng, seed):
    x = rng.integers(-500, 500, 256, np.int32)
    expected = np.sort(x)
    executed(right["sort"], 1, 256, [x], seed)
    assert np.array_equal(x, expected)


def test_compaction(right, rng, seed):
    x, out, count = rng.integers(-5, 5, 500, np.int32), np.zeros(500, np.int32), np.zeros(1, np.int32)
    executed(right["compact"], 2, 256, [x, out, count, 500], seed)
    assert count[0] == (x > 0).sum()
    assert np.array_equal(np.sort(out[: count[0]]), np.sort(x[x > 0]))


def test_threads_that_end_before_a_barrier(right, rng, seed):
    x, out = rng.standard_normal(64, np.float32), np.zeros(64, np.float32)
    executed(right["early_exit"], 1, 64, [x, out, 50], seed)
    assert np.array_equal(out[:50], x[:50][::-1])


def test_asynchronous_copies_two_tiles_ahead(right, rng, seed):
    x, out = rng.standard_normal((9, 32, 4), np.float32), np.empty(32, np.float32)
    executed(right["pipelined"], 1, 32, [x, Uninitialised(out), 9], seed)
    expected = np.roll((x.astype(np.float64) * [1, 2, 3, 4]).sum((0, 2)), -1)
    assert np.allclose(out, expected, atol=1e-4)


def test_lanes_exchange_through_shared_memory(right, rng, seed):
    x, out = rng.integers(0, 99, 64, np.int32), np.empty(64, np.int32)
    executed(right["warp_exchange"], 1, 64, [x, Uninitialised(out)], seed)
    assert np.array_equal(out, 2 * x[(np.arange(64) ^ 3) ^ 1])


def test_lanes_that_leave_a_loop_one_by_one(right, seed):
    x, steps = np.arange(1, 33, dtype=np.int32), np.empty(64, np.int32)
    run = executed(right["collatz"], 1, 32, [x, Uninitialised(steps)], seed)

    def length(v):
        return 0 if v == 1 else 1 + length(3 * v + 1 if v % 2 else v // 2)

    expected = [length(int(v)) for v in x]
    assert steps[:32].tolist() == expected
    assert set(steps[32:]) == {max(expected)}
    assert run.counters.active_lanes < 0.5


def test_lanes_that_wait_for_each_other(right, seed):
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    executed(right["lane_lock"], 1, 32, [lock, total], seed)
    assert total[0] == sum(range(32))


def test_named_barriers(right, rng, seed):
    x, out = rng.integers(0, 99, 32, np.int32), np.empty(32, np.int32)
    executed(right["producer"], 1, 64, [x, Uninitialised(out)], seed)
    assert np.array_equal(out, 3 * x[::-1])


def test_a_ring_of_mbarriers(right, rng, seed):
    x, out = rng.integers(0, 99, (9, 32), np.int32), np.empty(32, np.int32)
    executed(right["ring"], 1, 64, [x, Uninitialised(out), 9], seed)
    assert np.array_equal(out, x.sum(0)[::-1])


def test_blocks_that_wait_for_each_other(right, seed):
    flags, data, out = np.zeros(20, np.int32), np.zeros(20, np.int32), np.zeros(20, np.int32)
    executed(right["hand_over"], 20, 32, [flags, data, out], seed)
    assert out.tolist() == list(range(1, 21))


def test_half_pairs_are_rounded_once(right, rng, seed):
    x, y = rng.standard_normal(200).astype(np.float16), rng.standard_normal(200).astype(np.float16)
    exact = np.float64(np.float16(1.7)) * x.astype(np.float64) + y.astype(np.float64)
    executed(right["half_axpy"], 1, 128, [x, y, 1.7, 100], seed)
    assert np.array_equal(y, exact.astype(np.float16))


def test_calls_and_local_memory(right, rng, seed):
    table = 2.0 ** np.arange(8)
    x, out = rng.standard_normal(64), np.empty(64)
    executed(right["calls"], 1, 64, [x, Uninitialised(out), 3], seed)

    def slope(n, at):
        local = [table[(i + n) & 7] * at for i in range(8)]
        return local[n & 7] - local[(n + 3) & 7]

    for i in range(64):
        v = slope(i, x[i])
        v = [v + 1, v * 2, v - slope(3, v), abs(v) ** 0.5, -v, v / 3][i % 6]
        assert out[i] == pytest.approx(v, rel=1e-14)
