"""Random outputs: planted distributions, right and wrong, and candidates in real workers."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.measure._outputs import Tolerance, difference
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, admit, verify
from kernelwright.verify._two_sample import LEARNT, calls_for, differences, learn

TASK = """
import torch
import kernelwright as kw

@kw.task(
    x="float32[rows, dim]", workloads=[{"rows": 16, "dim": 48}],
    hidden=[{"rows": 7, "dim": 33}], confirm=[{"rows": 1, "dim": 40}],
)
def drop(x):
    return torch.nn.functional.dropout(x, 0.25, training=True)
"""
X = torch.randn(16, 48, generator=torch.Generator().manual_seed(0))
CYCLE = [torch.rand(X.shape, generator=torch.Generator().manual_seed(i)) < 0.5 for i in range(4)]


def dropped(x):
    return F.dropout(x, 0.5, training=True)


def masked(shape):
    return X * 2 * (torch.rand(shape) < 0.5)


def cycling():
    number = -1

    def draw():
        nonlocal number
        number += 1
        return X * 2 * CYCLE[number % 4]

    return draw


REFERENCES = {
    "dropout": lambda: dropped(X),
    "rare dropout": lambda: F.dropout(X, 0.01, training=True),
    "channels": lambda: F.dropout1d(X, 0.5, training=True),
    "rand_like": lambda: torch.rand_like(X),
    "bernoulli": lambda: torch.bernoulli(torch.sigmoid(X)),
    "multinomial": lambda: torch.multinomial(X.softmax(-1), 3),
    "mixed": lambda: dropped(X) @ X.t(),
    "noise": lambda: X + 0.1 * torch.randn_like(X),
    "one": lambda: torch.rand(1),
}
HONEST = {
    "dropout": lambda: torch.where(torch.rand_like(X) < 0.5, X * 2, 0.0),
    "rare dropout": lambda: torch.where(torch.rand_like(X) < 0.99, X / 0.99, 0.0),
    "channels": lambda: masked((len(X), 1)),
    "rand_like": lambda: 1 - torch.rand_like(X),
    "bernoulli": lambda: (torch.rand_like(X) < torch.sigmoid(X)).float(),
    "multinomial": lambda: (X.log_softmax(-1) - torch.empty_like(X).exponential_().log()).topk(3).indices,
    "mixed": lambda: torch.where(torch.rand_like(X) < 0.5, X * 2, 0.0) @ X.t(),
    "noise": lambda: torch.normal(X, 0.1),
    "one": lambda: torch.rand(2)[:1],
}
WRONG = {
    "fixed mask": ("dropout", lambda: X * 2 * CYCLE[0]),
    "a cycle of masks": ("dropout", cycling()),
    "another probability": ("dropout", lambda: F.dropout(X, 0.45, training=True)),
    "not rescaled": ("dropout", lambda: dropped(X) / 2),
    "scaled a little": ("dropout", lambda: dropped(X) * 0.999),
    "downcast": ("dropout", lambda: dropped(X.half()).float()),
    "mask by row": ("dropout", lambda: masked((len(X), 1))),
    "mask by column": ("dropout", lambda: masked((1, X.shape[1]))),
    "mask repeated": ("dropout", lambda: X * 2 * (torch.rand(16) < 0.5).repeat(X.numel() // 16).view(X.shape)),
    "nothing dropped": ("dropout", lambda: X.clone()),
    "the mean": ("rare dropout", lambda: X.clone()),
    "elements instead of channels": ("channels", lambda: dropped(X)),
    "another distribution of the same moments": ("rand_like", lambda: torch.randn_like(X) * 12**-0.5 + 0.5),
    "constant probability": ("bernoulli", lambda: (torch.rand_like(X) < 0.5).float()),
    "flatter weights": ("multinomial", lambda: torch.multinomial((X * 0.7).softmax(-1), 3)),
    "noise shared by rows": ("noise", lambda: X + 0.1 * torch.randn(1, X.shape[1])),
}  # fmt: skip


def judged(reference, candidate, seed=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        count = calls_for(X.numel(), searched=True)
        sampled = learn([reference() for _ in range(LEARNT + count)], seed, 1e-2)
        return differences(sampled, [candidate() for _ in range(count)], cases=20)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_same_distribution_drawn_otherwise_passes(name):
    assert judged(REFERENCES[name], HONEST[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_another_distribution_is_told_apart(name):
    reference, candidate = WRONG[name]
    assert judged(REFERENCES[reference], candidate)


def test_the_error_is_shared_out():
    """The numbers of equal samplers are tested at a level that hundreds of tests together hardly reach."""
    for seed in range(5):
        assert judged(REFERENCES["dropout"], REFERENCES["dropout"], seed) == []


def test_what_does_not_vary_must_be_what_it_is():
    fixed = torch.linspace(1, 2, 64).view(4, 16)
    rounded = torch.nextafter(fixed, torch.tensor(9.0))
    assert judged(lambda: fixed.clone(), lambda: rounded) == []
    assert "values never seen" in judged(lambda: fixed.clone(), lambda: fixed * 1.001)


def test_a_tie_at_a_quarter_is_no_difference():
    ones = torch.ones(32, 32)
    assert (
        judged(lambda: F.dropout(ones, 0.25, True), lambda: (torch.rand_like(ones) < 0.75) * 1.3333333) == []
    )


def test_infinities_and_integers_do_not_disturb():
    x = X.clone()
    x[0, 0], x[1, 1] = float("inf"), float("nan")
    assert judged(lambda: dropped(x), lambda: torch.where(torch.rand_like(x) < 0.5, x * 2, x * 0.0)) == []


CANDIDATES = {
    "honest": "def run(x):\n    return torch.where(torch.rand_like(x) < 0.75, x / 0.75, 0.0)\n",
    "identity": "def run(x):\n    return x.clone()\n",
    "fixed": "masks = {}\ndef run(x):\n    m = masks.setdefault(x.shape, torch.rand(x.shape) < 0.75)\n"
    "    return torch.where(m, x / 0.75, 0.0)\n",
    "small sizes only": "def run(x):\n    y = torch.where(torch.rand_like(x) < 0.75, x / 0.75, 0.0)\n"
    "    return y if x.shape == (16, 48) else x.clone()\n",
    "one buffer": "kept = {}\ndef run(x):\n    y = torch.where(torch.rand_like(x) < 0.75, x / 0.75, 0.0)\n"
    "    return kept.setdefault(x.shape, torch.empty_like(y)).copy_(y)\n",
    "seeded": "def run(x):\n    torch.manual_seed(42)\n    return torch.nn.functional.dropout(x, 0.25, True)\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def oracle(tmp_path_factory):
    path = tmp_path_factory.mktemp("task") / "dropout.py"
    path.write_text(TASK)
    return Oracle(Problem(load_task(str(path))))


def test_an_honest_dropout_is_accepted(oracle, pool, make):
    assert oracle.task.contract.stochastic
    found = verify(oracle.problem, *make(CANDIDATES["honest"]), pool=pool, oracle=oracle)
    assert found.status == "accepted", [f for f in found.findings if f.status != "pass"]


@pytest.mark.parametrize("name", ["identity", "fixed", "one buffer", "seeded"])
def test_a_wrong_dropout_is_rejected(name, oracle, pool, make):
    found = verify(oracle.problem, *make(CANDIDATES[name]), pool=pool, depth="screen", oracle=oracle)
    assert found.failure == "distribution"


def test_hidden_sizes_are_drawn_too(oracle, pool, make):
    found = verify(oracle.problem, *make(CANDIDATES["small sizes only"]), pool=pool, oracle=oracle)
    assert found.failure == "distribution"
    assert [f.workload for f in found.findings if f.status == "fail"] in (["hidden"], ["confirm"])


def test_without_the_check_a_fixed_mask_gets_through(oracle, pool, make):
    found = verify(
        oracle.problem, *make(CANDIDATES["fixed"]), pool=pool, depth="screen", oracle=oracle,
        disabled=frozenset({"distribution"}),
    )  # fmt: skip
    assert found.status == "accepted"


def test_admission_refuses_wrong_ways_to_draw(oracle):
    found = admit(oracle.problem, oracle=oracle)
    assert {"zeros", "scaled", "average", "one-draw", "input-0"} <= set(found.caught)
    assert not found.degenerate


def test_timed_random_outputs_are_compared_in_magnitude():
    allowed = Tolerance((0.0,), False, stochastic=True)
    wide = X.repeat(2, 1)
    draws = [F.dropout(wide, 0.5, True) for _ in range(2)]
    assert difference(draws[:1], draws[1:], allowed) == ""
    assert difference([torch.zeros_like(wide)], draws[1:], allowed)
    assert difference([draws[0] * 10], draws[1:], allowed)
