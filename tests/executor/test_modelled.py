"""Modelled times: the right term and interval on planted counters, and what cannot be modelled."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from kernelwright.devices.specs import specs
from kernelwright.errors import InputError
from kernelwright.executor import Counters, Execution, SiteCounters
from kernelwright.executor._loading import modelled_launches
from kernelwright.executor.device import KEPT_RUNS, device
from kernelwright.executor.modelled import modelled, registers_of

H100, A100 = specs()["h100-sxm"], specs()["a100-sxm-80"]
TIMES = Path(__file__).parents[2] / "benchmarks/results/h200/2026-11-26-executor-times.jsonl"
BLOCKS = 132 * 16


def site(instruction, requests, units):
    return SiteCounters(1, None, instruction, requests, 32 * requests, 32 * units, units)


def planted(instructions=None, sites=(), **more):
    """Counters of a grid that fills an H100 many times over, with one load and what is planted."""
    counted = {"blocks": BLOCKS, "threads": 256, "touched_bytes": 32 * BLOCKS} | more
    return Counters(instructions or {}, memory=(site("ld.global.f32", BLOCKS, BLOCKS), *sites), **counted)


COPY = {"ld.global.v4.f32": 1 << 22, "st.global.v4.f32": 1 << 22}
TERMS = {
    "dram": planted(COPY, [site(n, c, 16 * c) for n, c in COPY.items()], touched_bytes=1 << 32),
    "tensor": planted({"mma.sync": 1 << 24}, tensor={"f16": 1 << 40}),
    "float32": planted({"fma.rn.f32": 1 << 30}),
    "float64": planted({"fma.rn.f64": 1 << 30}),
    "special": planted({"ex2.approx.f32": 1 << 30}),
    "shared": planted({"ld.shared.f32": 1 << 22}, [site("ld.shared.f32", 1 << 22, 32 << 22)]),
    "latency": planted(blocks=1),
    "launch": planted(blocks=1 << 20, threads=64),
    "start": Counters(memory=(site("ld.global.f32", 1, 4),), blocks=1, threads=32, touched_bytes=128),
}


@pytest.mark.parametrize("term", TERMS)
def test_what_a_kernel_does_most_is_what_bounds_it(term):
    made = modelled(TERMS[term], H100, registers=32)
    assert made.term == term, made.terms_us
    assert 0 < made.low_us <= made.rank_us <= made.high_us
    assert all(low <= high for low, high in made.terms_us.values())


def test_the_interval_starts_at_what_the_published_rates_allow():
    assert modelled(TERMS["dram"], H100).low_us == pytest.approx((1 << 32) / 3.35e12 * 1e6)
    assert modelled(TERMS["tensor"], H100).low_us == pytest.approx((1 << 40) / 989.4e12 * 1e6)
    assert modelled(TERMS["float32"], H100).low_us == pytest.approx(64 * (1 << 30) / 67e12 * 1e6)
    on_a100 = modelled(dataclasses.replace(TERMS["dram"]), A100)
    assert on_a100.low_us == pytest.approx((1 << 32) / 2.039e12 * 1e6)


def test_small_blocks_wait_for_being_started():
    """262,144 blocks of 64 threads took 161 us on an H200, whether they moved 64 or 128 MiB."""
    few = planted(blocks=1 << 18, threads=64)
    made = modelled(few, H100, registers=16)
    assert made.low_us <= 161 <= made.high_us
    assert modelled(few, A100).terms_us.get("launch") is None  # nobody has measured it there


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "limited_by", "occupancy"),
    [
        (32, 0, 256, "threads", 1.0), (128, 0, 256, "registers", 0.25), (32, 100 << 10, 256, "shared memory", 0.25),
        (16, 0, 32, "blocks", 0.5), (0, 0, 1024, "threads", 1.0),
    ],
)  # fmt: skip
def test_occupancy_is_limited_by_what_runs_out_first(registers, shared, threads, limited_by, occupancy):
    counted = planted(blocks=1 << 20, threads=threads, shared_bytes=shared)
    made = modelled(counted, H100, registers=registers)
    assert (made.limited_by, made.occupancy) == (limited_by, occupancy)


def test_a_grid_of_one_block_more_than_there_are_multiprocessors_takes_twice_as_long():
    counted = planted({"fma.rn.f32": 1 << 30}, blocks=132)
    more = planted({"fma.rn.f32": (1 << 30) * 133 // 132}, blocks=133)
    low, high = modelled(counted, H100).low_us, modelled(more, H100).low_us
    assert high == pytest.approx(2 * low, rel=0.01)


def test_a_part_of_a_uniform_grid_stands_for_all_of_it():
    whole = modelled(planted({"fma.rn.f32": 1 << 30}, blocks=1320), H100)
    part = planted({"fma.rn.f32": (1 << 30) // 10}, blocks=132, touched_bytes=32 * BLOCKS // 10)
    assert modelled(part, H100, scale=10).low_us == pytest.approx(whole.low_us, rel=1e-6)


def test_what_cannot_be_modelled_is_said():
    with pytest.raises(InputError, match="no model of NVIDIA B200"):
        modelled(planted(), specs()["b200"])
    with pytest.raises(InputError, match="nothing was counted"):
        modelled(Counters(), H100)
    with pytest.raises(InputError, match="no tensor rate of e4m3"):
        modelled(planted(tensor={"e4m3": 1}), A100)
    for word in ("barrier.cluster.arrive", "mapa.u64"):
        with pytest.raises(InputError, match="blocks that meet in clusters"):
            modelled(planted({word: 1}), H100)


def test_loads_of_constants_in_small_blocks_may_come_one_after_another():
    small, great = (
        planted({"ld.const.f32": 900 * BLOCKS, "ld.param.u64": 8 * BLOCKS}, threads=n) for n in (128, 160)
    )
    assert modelled(small, H100).terms_us["constant"] == (0, pytest.approx(16 * 900 * 27 / 1.98e3, rel=0.01))
    assert "constant" not in modelled(great, H100).terms_us


def test_no_time_that_a_device_took_lies_beyond_its_interval():
    """Terms that are newer than the rows are modelled again, for the same multiprocessors; the others are the rows'."""
    rows = [json.loads(line) for line in TIMES.read_text().splitlines()[1:]]
    clusters, ratios = 0, []
    for row in rows:
        told = row["counters"]
        counted = planted(told["instructions"], blocks=told["blocks"], threads=math.prod(row["block"]))
        try:
            newer = modelled(counted, H100, scale=row["scale"]).terms_us
        except InputError:
            clusters += 1
            continue
        terms = row["modelled"]["terms_us"] | {n: newer[n] for n in ("launch", "constant") if n in newer}
        low, high = max(t[0] for t in terms.values()), sum(t[1] for t in terms.values())
        assert low <= row["us"] <= high, (row["name"], low, row["us"], high)
        ratios.append((row["us"], (low * high) ** 0.5))
    assert (len(ratios), clusters) == (80, 2)
    places = [np.argsort(np.argsort(side)) for side in zip(*ratios, strict=True)]
    assert np.corrcoef(*places)[0, 1] > 0.95


def test_more_launches_than_are_kept_have_no_model():
    device().note([Execution("ok", (), planted(), 1, 0.0)] * KEPT_RUNS)
    with pytest.raises(InputError, match="no model of a call with 256 launches"):
        modelled_launches(0)
    assert not device().runs
    device().note([Execution("ok", (), planted(), 1, 0.0)])
    assert [made.device for made in modelled_launches(0)] == [H100.name]


@pytest.mark.needs("nvcc")
def test_registers_come_from_ptxas():
    for target in ("sm_90", "sm_90a"):
        ptx = f".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
        assert 0 < registers_of(ptx, target, "k") <= 32
    assert registers_of(ptx, "sm_90", "other") == 0


@pytest.mark.long
def test_an_execution_counts_what_the_model_needs(right):
    x, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    run = right["add"](8, 128, [x, x, out, 1024])
    assert run.ok, run.findings
    assert (run.counters.blocks, run.counters.threads) == (8, 128)
    assert run.counters.touched_bytes == 2 * 4 * 1024
