"""Scopes of atomics and fences, counts of barriers and mbarriers, asynchronous copies, lanes that meet in part.

What is wrong is found, and kernels of the same kinds that are right give the right values without a finding.
"""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.executor import Options, Uninitialised
from kernelwright.executor.cuda import load_cuda

from .conftest import KERNELS, prepared

SOURCE = (KERNELS / "scopes_faulty.cu").read_text().splitlines()


def f32(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def i32(n):
    return np.random.default_rng(2).integers(-100, 100, n).astype(np.int32)


def out(n, dtype=np.int32):
    return Uninitialised(np.zeros(n, dtype))


def zeros(n, dtype=np.int32):
    return np.zeros(n, dtype)


FAULTS = {
    # name: grid, block, arguments, the kinds of finding that name it, a word of a source line
    "block_fence": (6, 32, lambda: [f32(6), out(6), out(1)], "race", "parts[b"),
    "block_atomic": (4, 32, lambda: [f32(128), zeros(1, np.float32)], "race", "atomicAdd_block"),
    "block_scope_flag": (4, 32, lambda: [zeros(4), out(4), out(4)], "race", "data[b"),
    "ldg_after_write": (1, 64, lambda: [f32(64), out(64), out(64)], "non-coherent", "__ldg"),
    "barrier_counts": (1, 64, lambda: [i32(32), out(32)], "barrier-count", "bar."),
    "init_without_sync": (1, 64, lambda: [i32(32), out(32)], "race", ""),
    "shuffle_unnamed": (1, 32, lambda: [i32(32), out(16)], "shuffle-source", "__shfl_sync"),
    "one_waits_all_read": (2, 128, lambda: [zeros(1), out(128), out(128)], "race", "data[t]"),
    "read_wait_only": (1, 64, lambda: [f32(64), out(64), out(64)], "uninitialised race", "y[63 - t]"),
    "stale_parity": (1, 64, lambda: [i32(128), out(32), 4], "deadlock race", ""),
    "count_too_small": (1, 96, lambda: [i32(64), out(32)], "deadlock race", ""),
    "no_empty_wait": (1, 64, lambda: [f32(256), out(32), 8], "race copy-not-waited", "total += s[k % 2]"),
    "early_release": (1, 64, lambda: [i32(128), out(32), 4], "race", "place["),
    "tile_sync_too_small": (1, 32, lambda: [i32(32), out(32)], "race", "s[31 - t]"),
    "stale_volatile_lock": (4, 32, lambda: [zeros(1), zeros(1)], "race", "*total += 1"),
    "one_group": (1, 32, lambda: [f32(512), out(32), 4], "copy-not-waited", "total += s[k % 2]"),
}  # fmt: skip


@pytest.fixture(scope="module")
def faulty():
    return prepared("scopes_faulty.ptx")


@pytest.fixture(scope="module")
def right():
    return prepared("scopes_right.ptx")


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_planted_fault_is_found_at_its_line(faulty, name, seed):
    grid, block, arguments, kinds, word = FAULTS[name]
    run = faulty[name](grid, block, arguments(), options=Options(seed=seed, deadline_s=20))
    found = [f for f in run.findings if f.kind in kinds.split()]
    assert found, [str(f) for f in run.findings]
    sides = [s for f in found for s in (f.source, f.other_source) if s and s.file == "scopes_faulty.cu"]
    assert not word or any(word in SOURCE[s.line - 1] for s in sides), [str(s) for s in sides]


def mirrored(x, n):
    return x.reshape(-1, n)[:, ::-1].reshape(-1)


def chained(t):
    """Return what four blocks make of `data`, each of the one before it, turned round, and one more."""
    rows = [np.arange(64)]
    for _ in range(3):
        rows.append(rows[-1][::-1] + 1)
    return np.concatenate(rows)[t]


def tail_sums(x):
    same = [x[(x & 3) == (v & 3)].sum() for v in x]
    return np.array(same) + np.where(np.arange(32) == 0, x[:20].sum(), 0)


def of_eights(x):
    """Return each eight's sum, as often as its lane counts, and the sum of the eight on the other side of the block."""
    sums = x.reshape(-1, 8).sum(1)
    return (sums[:, None] * np.arange(1, 9) + sums[::-1, None]).reshape(-1)


def labelled(x):
    """Return, by warp, the sum of those with the same last two bits, of those as even the greatest and their number."""
    return np.array([
        warp[(warp & 3) == (v & 3)].sum() + warp[(warp & 1) == (v & 1)].max() + ((warp & 1) == (v & 1)).sum()
        for warp in x.reshape(-1, 32) for v in warp
    ])  # fmt: skip


def counts(x):
    return np.concatenate([np.bincount(row & 7, minlength=8) for row in x.reshape(-1, 256)])


def pairs(x):
    """Return the sums of each block's values and its right neighbour's."""
    rows = x.reshape(-1, 2, 64)
    return (rows[:, 0] + rows[:, 1]).reshape(-1)


RIGHT = {
    # name: grid, block, arguments, the number of the argument that is the result, what it must be
    "block_message": (1, 64, lambda: [i32(32), out(32)], 1, lambda a: a[0][::-1]),
    "device_message": (4, 64, lambda: [zeros(4), out(256), out(256)], 2, lambda a: chained(np.arange(256))),
    "histogram_block": (3, 64, lambda: [i32(768), zeros(24)], 1, lambda a: counts(a[0])),
    "halves": (1, 32, lambda: [i32(16), out(16)], 1, lambda a: 2 * a[0][::-1]),
    "chain": (1, 32, lambda: [i32(1), out(1)], 1, lambda a: a[0]),
    "ring": (1, 96, lambda: [f32(96 * 8), out(64, np.float32), 8], 1,
             lambda a: (a[0].reshape(8, 96)[:, 63::-1] + np.tile(a[0].reshape(8, 96)[:, 64:], 2)).sum(0)),
    "relaxed_cluster": (4, 64, lambda: [f32(256), out(256, np.float32)], 1,
                        lambda a: mirrored(a[0].reshape(2, 2, 64)[:, ::-1].reshape(-1), 64)),
    "fixup": (4, 64, lambda: [f32(256), out(256, np.float32), zeros(4), out(128, np.float32)], 3,
              lambda a: pairs(a[0])),
    "partial_masks": (1, 32, lambda: [i32(32), out(32)], 1, lambda a: tail_sums(a[0])),
    "warp_volatile": (1, 64, lambda: [i32(64), out(1)], 1, lambda a: a[0].sum(keepdims=True)),
    "lamport": (2, 32, lambda: [i32(32), zeros(64), out(32)], 2, lambda a: 3 * a[0]),
    "double_buffered": (1, 64, lambda: [f32(2048), out(64, np.float32), 8], 1,
                        lambda a: a[0].reshape(8, 64, 4)[:, ::-1, 0].sum(0)),
    "bulk_out": (1, 64, lambda: [f32(192), out(192, np.float32)], 1, lambda a: a[0]),
    "cluster_ring": (4, 64, lambda: [f32(256), out(256, np.float32)], 1,
                     lambda a: mirrored(np.repeat(a[0].reshape(2, 2, 64)[:, :1], 2, axis=1).reshape(-1), 64)),
}  # fmt: skip

GROUPS = {
    "tiles": (1, 128, lambda: [i32(128), out(128)], 1, lambda a: of_eights(a[0])),
    "aggregated": (2, 64, lambda: [i32(128), zeros(1), out(128), 120], 1,
                   lambda a: (a[0][:120] > 0).sum(keepdims=True)),
    "barrier_copy": (1, 128, lambda: [f32(512), out(128, np.float32), 4], 1,
                     lambda a: a[0].reshape(4, 128)[:, ::-1].sum(0)),
    "roles": (1, 128, lambda: [f32(512), out(64, np.float32), 8], 1, lambda a: a[0].reshape(8, 64)[:, ::-1].sum(0)),
    "latched": (1, 64, lambda: [i32(64), out(64)], 1, lambda a: a[0][::-1]),
    "split_barrier": (1, 64, lambda: [i32(64), out(192)], 1,
                      lambda a: np.concatenate([a[0][::-1] * (k + 1) + k for k in range(3)])),
    "scheduler": (3, 64, lambda: [f32(640), out(640, np.float32), zeros(1), 10], 1, lambda a: 2 * a[0]),
    "semaphore": (1, 128, lambda: [zeros(1)], 0, lambda a: np.array([4])),
    "group_copy": (1, 128, lambda: [i32(128), out(128)], 1,
                   lambda a: mirrored(a[0], 32) + a[0].reshape(4, 32)[::-1].reshape(-1)),
    "labels": (1, 64, lambda: [i32(64), out(64)], 1, lambda a: labelled(a[0])),
    "grid_halves": (4, 64, lambda: [i32(256), out(256), out(256)], 2, lambda a: 3 * a[0][::-1]),
}  # fmt: skip


def runs_clean(kernel, case, seed):
    grid, block, arguments, result, expected = case
    given = arguments()
    run = kernel(grid, block, given, options=Options(seed=seed, deadline_s=30))
    assert run.ok, (run.status, run.notes, [str(f) for f in run.findings])
    got = getattr(given[result], "array", given[result])
    assert np.allclose(got, expected(given), atol=1e-5)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("seed", [0, 5])
def test_what_is_right_has_no_finding(right, name, seed):
    runs_clean(right[name], RIGHT[name], seed)


def test_lanes_that_come_to_a_barrier_each_by_itself_are_refused(right):
    """`barrier.sync` without `.aligned` lets them, but a warp waits as one here: not executed, and no finding."""
    run = right["each_by_itself"](1, 64, [i32(64), out(64)])
    assert (run.status, run.findings) == ("refused", ())
    assert run.notes[0].startswith("stopped at PTX line")
    assert run.notes[0].endswith(": barrier.sync")


def test_values_of_lanes_that_take_no_part_may_be_discarded(right):
    run = right["partial_masks"](1, 32, [i32(32), out(32)])
    assert "lanes that take no part were asked for values; no result depends" in " ".join(run.notes)


@pytest.mark.needs("nvcc")
@pytest.mark.long
def test_groups_and_the_library_s_own_barriers_have_no_finding():
    module = load_cuda(Path(KERNELS / "groups.cu").read_text(), target="sm_90a")
    module.prepare()
    for name, case in GROUPS.items():
        for seed in (0, 5):
            runs_clean(module[name], case, seed)
