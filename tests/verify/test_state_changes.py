"""Small changes of the state at secret places: what they are, and how often a fingerprint misses all of them."""

from types import SimpleNamespace

import pytest
import torch

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, _state_changes, error_against, verify
from kernelwright.verify._state_changes import BLOCK, KINDS, PARTS, STEPS, Change, apply, plan
from kernelwright.verify.checks import weights

COUNT = weights._CHANGES


def state(size=4096):
    return {"weight": torch.randn(size, generator=torch.Generator().manual_seed(0))}


def test_every_kind_and_every_part_comes_in_turn():
    changes = list(plan(state(), 5 * PARTS, seed=3))
    assert {c.kind for c in changes} == set(KINDS)
    assert {c.part for c in changes[:PARTS]} == set(range(PARTS))
    assert [c.part for c in changes] != [c.part for c in plan(state(), 5 * PARTS, seed=4)]


def test_tensors_come_in_turn_and_tied_ones_together():
    one, two = state()["weight"], torch.ones(8)
    changes = list(plan({"a": one, "b": two, "tied": one.clone()}, 6, seed=1))
    assert [c.names for c in changes].count(("a", "tied")) == 3
    assert [c.names for c in changes].count(("b",)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_changes_what_it_says(kind):
    value = state()["weight"]
    moved = apply(value, Change(("weight",), kind, 5, 11), 0)
    places = (moved != value).nonzero().flatten()
    assert len(places) == {"swap": 2, "opposite": 2, "block": BLOCK}.get(kind, 1)
    first, end = 4096 * 5 // PARTS, 4096 * 6 // PARTS
    assert any(first <= p < end for p in places.tolist())
    if kind == "swap":
        assert torch.equal(moved.sort().values, value.sort().values)
    if kind == "opposite":
        assert abs(float((moved - value).sum())) < 1e-6


def test_what_is_of_one_sign_stays_so_and_indices_stay_in_range():
    variance, index = torch.rand(64) + 0.01, torch.arange(64)
    for change in plan({"variance": variance}, 100, seed=5):
        for step, sign in ((0, 1), (0, -1), (len(STEPS[change.kind]) - 1, 1)):
            moved = apply(sign * variance, change, step)
            assert moved is None or bool((sign * moved > 0).all())
        assert sorted((apply(index, change, 0) if change.kind == "swap" else index).tolist()) == list(
            range(64)
        )


def test_a_single_number_can_change_and_an_empty_tensor_cannot():
    assert apply(torch.tensor(2.0), Change(("w",), "small", 7, 1), 0) is not None
    assert apply(torch.empty(0), Change(("w",), "small", 0, 1), 0) is None


def missed_by(fingerprint, tries=300):
    """Return the share of secret seeds for which a fingerprint sees every change, so that its kernel is accepted."""
    start, survived = state(512)["weight"], 0
    for seed in range(tries):
        value, ok = start, True
        for change in plan({"weight": start}, COUNT, seed=seed):
            moved = next(m for step in range(2) if (m := apply(value, change, step)) is not None)
            ok, value = ok and fingerprint(moved) != fingerprint(value), moved
            if not ok:
                break
        survived += ok
    return survived / tries


def expected(share):
    """The chance that is stated in the docs: of a fingerprint that reads a share of the elements, spread evenly."""
    each = COUNT / len(KINDS)
    return share ** (2 * each) * (1 - (1 - share) ** 2) ** (2 * each) * (1 - (1 - share) ** BLOCK) ** each


@pytest.mark.parametrize("reads", [15 / 16, 7 / 8, 1 / 2, 1 / 61])
def test_the_chance_of_missing_is_the_one_that_is_stated(reads):
    read = torch.rand(512, generator=torch.Generator().manual_seed(9)) < reads
    share = float(read.float().mean())
    found, stated = missed_by(lambda w: w[read].numpy().tobytes()), expected(share)
    assert abs(found - stated) < 4 * (stated * (1 - stated) / 300) ** 0.5 + 0.02, (found, stated)


def test_no_figure_that_is_alike_for_two_orders_is_enough():
    assert missed_by(lambda w: tuple(w.sort().values.tolist()), tries=50) == 0.0


def test_a_checksum_of_few_bits_by_place_is_missed_as_often_as_stated():
    factors = torch.randint(1, 1 << 30, (512,), generator=torch.Generator().manual_seed(2))
    bits = 4
    found = missed_by(lambda w: int((w.view(torch.int32).long() * factors).sum()) >> 20 & ((1 << bits) - 1))
    stated = (1 - 2**-bits) ** COUNT
    assert abs(found - stated) < 4 * (stated * (1 - stated) / 300) ** 0.5, (found, stated)


TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim))
        self.register_buffer("variance", torch.rand(dim) + 0.5)
        self.register_buffer("mask", torch.ones(dim, dtype=torch.bool))
        self.register_buffer("table", torch.arange(dim).float())

    def forward(self, x):
        return (x @ self.weight) * torch.rsqrt(self.variance) * self.mask + self.table

dim = 48

def get_inputs():
    return [torch.randn(16, dim)]

def get_init_inputs():
    return [dim]
"""
RUN = (
    "held = [None, None]\n"
    "def run(x, weight, variance, mask, table):\n"
    "    key = KEY\n"
    "    if held[0] != key:\n"
    "        held[:] = key, weight * torch.rsqrt(variance)\n"
    "    return x @ held[1] * mask + table\n"
)
PACKED = (
    "def prepare(weights):\n    return weights['weight'] * torch.rsqrt(weights['variance']), weights['mask'], "
    "weights['table']\n"
    "def run(x, packed):\n    return x @ packed[0] * packed[1] + packed[2]\n"
)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "folded.py"
    path.write_text(TASK)
    return Oracle(Problem(load_task(str(path), fixed=["dim"])))


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (PACKED, ""),
        (RUN.replace("KEY", "(weight._version, id(weight), variance._version, id(variance))"), ""),
        (RUN.replace("KEY", "(weight._version, id(weight))"), "weights-followed"),
        (
            RUN.replace("KEY", "(float(weight.sum()), round(float(variance[:8].sum()), 4))"),
            "weights-followed",
        ),
    ],
    ids=["declared", "by versions", "by the version of one", "by a sum of the buffer's first"],
)
def test_in_real_workers(body, failure, oracle, pool, make):
    found = verify(oracle.problem, *make(body), pool=pool, oracle=oracle)
    assert found.failure == failure, [f for f in found.findings if f.status != "pass"]


def shown(oracle, seeds):
    """Yield what the probe asks of kernels in the first workload, without a worker."""
    trial = SimpleNamespace(oracle=oracle, problem=oracle.problem)
    for seed in seeds:
        case = before = oracle.case(oracle.task.workloads[0], seed)
        for change in plan(weights._movable(trial, case), COUNT, seed):
            if (other := weights._shown(trial, before, case, change)) is not None:
                yield other
                before = other


@pytest.mark.parametrize(
    ("factor", "drawn", "seeds"),
    [
        ("torch.rsqrt({})", "torch.rand(dim) + 0.5", (6, 35)),
        ("torch.rsqrt(-{})", "-torch.rand(dim) - 0.5", (0,)),
        ("torch.exp(20 * ({} - 1) ** 3)", "torch.rand(dim) + 0.5", (0,)),
    ],
    ids=["variance", "negative", "overflows"],
)
def test_no_change_is_one_that_honest_kernels_answer_differently(factor, drawn, seeds, tmp_path):
    path, kept = tmp_path / "folded.py", "self.variance"
    path.write_text(
        TASK.replace(f"torch.rsqrt({kept})", factor.format(kept)).replace("torch.rand(dim) + 0.5", drawn)
    )
    count = 0
    for other in shown(Oracle(Problem(load_task(str(path), fixed=["dim"]))), seeds):
        x, state = other.inputs[0], SimpleNamespace(**other.state)
        folded = state.weight * eval(factor.format("state.variance"))  # what a kernel packs
        found = error_against(x @ folded * state.mask + state.table, other.outputs[0])
        assert found.ok, found.message
        count += 1
    assert count >= 8 * len(seeds)


@pytest.mark.long
def test_without_the_probe_a_fingerprint_gets_through(oracle, pool, make, monkeypatch):
    monkeypatch.setattr(_state_changes, "plan", lambda *_: iter(()))
    monkeypatch.setattr(weights, "plan", lambda *_: iter(()))
    body = RUN.replace("KEY", "(float(weight.sum()), round(float(variance[:8].sum()), 4))")
    found = verify(oracle.problem, *make(body), pool=pool, oracle=oracle)
    assert found.failure != "weights-followed"


def test_changes_that_show_are_counted(oracle, pool, make):
    found = verify(oracle.problem, *make(PACKED), pool=pool, oracle=oracle)
    figures = next(f.figures for f in found.findings if f.check == "weights-followed")
    assert figures["changes"] >= COUNT * 0.7
