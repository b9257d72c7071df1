"""Every planted fault is found, at its line, by its name."""

from pathlib import Path

import numpy as np
import pytest

from kernelwright.executor import Options, Uninitialised

SOURCE = (Path(__file__).parent / "kernels" / "faulty.cu").read_text().splitlines()


def f32(*shape):
    return np.random.default_rng(1).standard_normal(shape, np.float32)


def i32(*values):
    return np.array(values, np.int32)


def out(n=256):
    return Uninitialised(np.zeros(n, np.float32))


def zeros(n=256):
    return np.zeros(n, np.int32)


FAULTS = {
    # name: grid, block, arguments, bytes of dynamic shared memory, the kind of finding, a word of its source line
    "no_tail_mask": (4, 32, lambda: [f32(100), out(100), 100], 0, "out-of-bounds", "out[i] = x[i] + 1"),
    "one_too_far": (4, 32, lambda: [f32(101), out(100), 100], 0, "out-of-bounds", "i <= n"),
    "before_start": (4, 32, lambda: [f32(100), out(100), 100], 0, "out-of-bounds", "x[i - 1]"),
    "no_barrier": (1, 128, lambda: [f32(128), out(128)], 0, "race", "s[127 - threadIdx.x]"),
    "no_second_barrier": (1, 128, lambda: [f32(512), out(128)], 0, "race", "s["),
    "barrier_outside_loop": (1, 128, lambda: [f32(128), out(1)], 0, "race", "+= s[threadIdx.x + o]"),
    "warp_without_sync": (1, 32, lambda: [zeros(32) + np.arange(32, dtype=np.int32), zeros(32)], 0, "race", "^ 1]"),
    "uninitialised_shared": (1, 128, lambda: [f32(100), out(128), 100], 0, "uninitialised", "out[threadIdx.x] = s"),
    "uninitialised_global": (1, 32, lambda: [out(32), 32], 0, "uninitialised", "+= 1"),
    "barrier_in_branch": (1, 32, lambda: [f32(32), out(32)], 0, "barrier-divergence", "__syncthreads"),
    "barrier_by_turns": (1, 32, lambda: [np.zeros(32, np.float32)], 0, "barrier-divergence", ""),
    "deadlock": (1, 64, lambda: [out(64)], 0, "deadlock", "bar.sync 2"),
    "copy_without_wait": (1, 32, lambda: [f32(128), out(32)], 0, "copy-not-waited", "s[31 - threadIdx.x].x"),
    "copy_waits_too_little": (1, 32, lambda: [f32(512), out(32), 4], 0, "copy-not-waited", "s[k % 2]"),
    "copy_without_barrier": (1, 64, lambda: [f32(256), out(64)], 0, "race", "s[63 - threadIdx.x].x"),
    "copy_left": (1, 32, lambda: [f32(128), out(32)], 0, "copy-left", "__pipeline_memcpy_async"),
    "mbarrier_without_wait": (1, 64, lambda: [np.arange(32, dtype=np.int32), zeros(32)], 0, "race", "place[31 - lane]"),
    "misaligned": (1, 8, lambda: [f32(64), out(8)], 0, "misaligned", "float4"),
    "blocks_add": (6, 1, lambda: [f32(6), np.zeros(1, np.float32)], 0, "race", "*out +="),
    "no_fence": (6, 1, lambda: [f32(6), out(6), out(1)], 0, "race", "parts[b"),
    "shared_too_far": (1, 32, lambda: [f32(32), out(32)], 0, "out-of-bounds", "s[threadIdx.x + 1]"),
    "dynamic_too_small": (1, 32, lambda: [f32(32), out(32)], 100, "out-of-bounds", "d["),
    "local_too_far": (1, 4, lambda: [i32(1, 2, 3, 9), zeros(4)], 0, "out-of-bounds", "local["),
    "mask_lacks_lanes": (1, 32, lambda: [zeros(32), zeros(32)], 0, "mask-lacks-lane", "__shfl"),
    "mask_names_too_many": (1, 32, lambda: [zeros(32), zeros(32)], 0, "lanes-not-there", "__shfl"),
    "same_place": (1, 32, lambda: [f32(32), out(16)], 0, "conflicting-writes", "/ 2]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_planted_fault_is_found_at_its_line(faulty, name, seed):
    grid, block, arguments, shared_bytes, kind, word = FAULTS[name]
    options = Options(seed=seed, deadline_s=20)
    run = faulty[name](grid, block, arguments(), shared_bytes=shared_bytes, options=options)
    found = [f for f in run.findings if f.kind == kind]
    assert found, [str(f) for f in run.findings]
    lines = {
        SOURCE[s.line - 1] for f in found for s in (f.source, f.other_source) if s and s.file == "faulty.cu"
    }
    assert any(word in line for line in lines), lines


def test_nothing_is_found_where_checks_are_off(faulty):
    run = faulty["no_barrier"](1, 128, [f32(128), out(128)], options=Options(check=False))
    assert run.status == "ok"
    assert run.findings == ()


def test_a_finding_names_everything(faulty):
    run = faulty["no_tail_mask"]((4,), (32,), [f32(100), out(100), 100])
    first = next(f for f in run.findings if f.instruction.startswith("ld"))
    assert (first.block, first.thread, first.count) == ((3, 0, 0), 4, 28)
    assert first.size == 4
    assert "4 bytes past the end of argument 0 (400 bytes)" in str(first)
    assert "faulty.cu:" in str(first)


def test_a_race_names_both_sides(faulty):
    run = faulty["no_barrier"](1, 128, [f32(128), out(128)])
    race = run.findings[0]
    assert race.thread + race.other_thread == 127
    assert {race.line, race.other_line} != {0}
    assert race.line != race.other_line


def test_a_wait_without_end_meets_its_deadline(faulty):
    run = faulty["forever"](1, 32, [np.zeros(2, np.int32)], options=Options(deadline_s=0.5))
    assert run.status == "deadline"
    assert run.time_s < 5


def test_a_loop_without_end_meets_its_budget(faulty):
    run = faulty["without_end"](1, 32, [np.zeros(2, np.int32), 2], options=Options(most_steps=100_000))
    assert run.status == "step-budget"
    assert run.steps < 10_000_000


def test_a_constant_argument_is_not_written(faulty):
    x = np.zeros(32, np.float32)
    x.flags.writeable = False
    run = faulty["writes_input"](1, 32, [x])
    assert run.findings[0].kind == "read-only"
    assert not x.any()


def test_a_trap_ends_the_launch(faulty):
    x = np.arange(32, dtype=np.int32)
    run = faulty["traps"](1, 32, [x])
    assert run.status == "trap"
    assert "faulty.cu" in run.notes[0]
