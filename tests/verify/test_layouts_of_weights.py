"""Weights in another layout, gradients of renamed ones, lazy layers: judged on secret weights, or not at all."""

import pytest
import torch

from kernelwright.languages import get_language
from kernelwright.records import Candidate, PackedWeight, Packing, SourceFile
from kernelwright.sandbox._packing import Names, packed, unpacked
from kernelwright.tasks import Problem, _packed, load_task
from kernelwright.tasks._packed import packings
from kernelwright.tasks._weights import pairs
from kernelwright.verify import verify

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim, out), nn.Linear(dim, out), nn.Linear(dim, out)

    def forward(self, x):
        return torch.tanh(self.q(x) * self.k(x)) + self.v(x)

rows, dim, out = 12, 16, 8

def get_inputs():
    return [torch.randn(rows, dim)]

def get_init_inputs():
    return [dim, out]
"""
MODULE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class ModelNew(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        made = [nn.Linear(dim, out) for _ in range(3)]
        weights, biases = torch.stack([m.weight.detach() for m in made]), [m.bias.detach() for m in made]
        {init}

    def forward(self, x):
        {forward}
"""
JOINED = (
    "self.w = nn.Parameter(weights.transpose(1, 2).contiguous())\n"
    "        self.b = nn.Parameter(torch.cat(biases))"
)
APART = (
    "self.w = nn.ParameterList([w.t().contiguous() for w in weights])\n"
    "        self.b = nn.ParameterList(biases)"
)
FORWARD = "q, k, v = torch.matmul(x, self.w) + self.b.view(3, 1, -1)\n        return torch.tanh(q * k) + v"
IN_TURN = (
    "self.w = nn.Parameter(weights.permute(2, 1, 0).flatten(1))\n"
    "        self.b = nn.Parameter(torch.stack(biases, 1).flatten())"
)
SPLIT = (
    "q, k, v = (x @ self.w + self.b).unflatten(-1, (-1, 3)).unbind(-1)\n        return torch.tanh(q * k) + v"
)
PADDED = (
    "self.w = nn.Parameter(F.pad(weights.transpose(1, 2), (0, 5, 0, 1)))\n"
    "        self.b = nn.Parameter(torch.cat(biases))"
)
CUT = FORWARD.replace("x, self.w)", "F.pad(x, (0, 1)), self.w)[..., :-5]")
ONE_BY_ONE = "q, k, v = (x @ w + b for w, b in zip(self.w, self.b))\n        return torch.tanh(q * k) + v"
SCALED = JOINED.replace("weights.transpose", "(weights FACTOR).transpose")
UNSCALED = FORWARD.replace("torch.matmul(x, self.w)", "torch.matmul(x, self.w) UNDONE")
FOLDED = "self.scale = float(weights.abs().max())"
LAZY = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.q, self.k, self.v = nn.LazyLinear(out), nn.LazyLinear(out), nn.LazyLinear(out)

    def forward(self, x):
        return torch.tanh(self.q(x) * self.k(x)) + self.v(x)SPOILT
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    path = tmp_path_factory.mktemp("layouts") / "layouts.py"
    path.write_text(TASK)
    return {way: Problem(load_task(str(path), backward=way == "backward")) for way in ("forward", "backward")}


def judged(problem, pool, text, depth="screen"):
    candidate = Candidate(
        sources=(SourceFile(path="c.py", text=text),), language="torch", entry="c.py:ModelNew", style="module"
    )
    return verify(problem, candidate, get_language("torch").build(candidate), pool=pool, depth=depth)


def said(verdict):
    return "; ".join(f"{f.check}: {f.message}" for f in verdict.findings if f.status != "pass")


@pytest.mark.parametrize(
    ("way", "init", "forward"),
    [
        ("forward", JOINED, FORWARD),
        ("forward", APART, ONE_BY_ONE),
        ("forward", IN_TURN, SPLIT),
        ("forward", PADDED, CUT),
        ("backward", JOINED, FORWARD),
        ("backward", APART, ONE_BY_ONE),
        ("backward", IN_TURN, SPLIT),
        ("backward", PADDED, CUT),
        ("backward", "self.made = nn.ModuleList(made)",
         "q, k, v = (m(x) for m in self.made)\n        return torch.tanh(q * k) + v"),
    ],
    ids=[
        "joined", "transposed", "in turn", "padded", "gradients of joined", "gradients of transposed",
        "gradients of those in turn", "gradients of padded", "gradients by other names",
    ],
)  # fmt: skip
def test_a_right_kernel_is_judged_whatever_the_layout_of_its_weights(tasks, pool, way, init, forward):
    verdict = judged(tasks[way], pool, MODULE.format(init=init, forward=forward))
    assert verdict.status == "accepted", said(verdict)


@pytest.mark.parametrize(
    ("way", "init", "forward"),
    [
        ("forward", f"{JOINED}\n        {FOLDED}", f"{FORWARD} * self.scale / self.w.abs().max()"),
        ("forward", JOINED, FORWARD.replace("q, k, v", "q, v, k")),
        ("forward", IN_TURN, SPLIT.replace("q, k, v", "q, v, k")),
        ("forward", PADDED, CUT.replace(":-5", "1:-4")),
        ("backward", JOINED, FORWARD.replace("x, self.w)", "x, self.w.detach())")),
    ],
    ids=["a figure of them is folded", "parts change places", "turns change", "padding is read", "no gradient"],
)  # fmt: skip
def test_a_wrong_kernel_is_refused_in_any_layout(tasks, pool, way, init, forward):
    verdict = judged(tasks[way], pool, MODULE.format(init=init, forward=forward))
    assert (verdict.status, verdict.failure) == ("rejected", "correct"), said(verdict)


def test_what_is_no_rearrangement_decides_nothing(tasks, pool):
    init = JOINED.replace("weights.transpose", "(weights * (1 + weights.abs())).transpose")
    verdict = judged(tasks["forward"], pool, MODULE.format(init=init, forward=FORWARD))
    assert verdict.status == "unknown"
    assert "'w' [3, 16, 8]" in said(verdict)


@pytest.mark.parametrize(
    ("way", "factor", "undone"),
    [
        ("forward", "* 0.125", "* 8"),
        ("forward", "* (16**-0.5 * 1.1)", "/ (16**-0.5 * 1.1)"),
        ("forward", "/ 7 ** 0.5", "* 7**0.5"),
        (
            "forward",
            "* torch.tensor([-1.5, 1, 0.3]).view(3, 1, 1)",
            "/ torch.tensor([-1.5, 1, 0.3]).view(3, 1, 1)",
        ),
        ("backward", "* -1.5", "/ -1.5"),
    ],
    ids=["by a power of two", "by any number", "divided", "each by its own", "gradients of scaled"],
)
def test_a_right_kernel_may_keep_its_weights_scaled(tasks, pool, way, factor, undone):
    text = MODULE.format(init=SCALED, forward=UNSCALED).replace("FACTOR", factor).replace("UNDONE", undone)
    verdict = judged(tasks[way], pool, text)
    assert verdict.status == "accepted", said(verdict)


def test_a_figure_of_scaled_weights_that_goes_stale_is_refused(tasks, pool):
    stale = f"{UNSCALED} * self.scale / self.w.abs().max() * 1.5".replace("UNDONE", "/ 1.5")
    text = MODULE.format(init=f"{SCALED}\n        {FOLDED}", forward=stale).replace("FACTOR", "* 1.5")
    verdict = judged(tasks["forward"], pool, text)
    assert (verdict.status, verdict.failure) == ("rejected", "correct"), said(verdict)


@pytest.mark.parametrize(("spoilt", "status"), [("", "accepted"), (" * 1.01", "rejected")])
def test_lazy_layers_of_a_kernel_take_the_problems_weights(tasks, pool, spoilt, status):
    verdict = judged(tasks["forward"], pool, LAZY.replace("SPOILT", spoilt))
    assert verdict.status == status, said(verdict)


def test_layouts_are_found_and_undone():
    torch.manual_seed(0)
    shapes = {"a": (6, 4), "b": (6, 4), "c": (8, 3, 3, 3), "d": (6, 6), "e": (16, 8), "f": (5, 1)}
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    held = {
        "stacked": torch.stack([weights["a"].t(), weights["b"].t()]),
        "matrix": weights["c"].permute(2, 3, 1, 0).reshape(27, 8),
        "square": weights["d"].t().contiguous(),
        "tiles": weights["e"].reshape(4, 4, 8).permute(0, 2, 1).contiguous(),
        "row": weights["f"].t(),
        "sum": weights["a"] + 1,
    }
    found, alike = packings(weights, held)
    assert ({p.name: p.names for p in found}, alike) == ({
        "row": ("f",), "square": ("d",), "stacked": ("a", "b"), "tiles": ("e",), "matrix": ("c",),
    }, ())  # fmt: skip
    other = {name: torch.randn(shape) for name, shape in shapes.items()}
    for packing in found:
        assert packed(packing, weights).equal(held[packing.name])
        back = unpacked(packing, packed(packing, other))
        assert all(back[name].equal(other[name]) and back[name].is_contiguous() for name in packing.names)
    flat = torch.cat([w.flatten() for w in weights.values()])
    assert [p.names for p in packings(weights, {"flat": flat})[0]] == [tuple(shapes)]


def test_weights_in_turn_split_or_padded_are_found_and_undone():
    torch.manual_seed(0)
    shapes = {"a": (6, 4), "b": (6, 4), "c": (12, 5), "d": (12, 5), "e": (8, 10), "f": (3, 7), "g": (2, 9)}
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    pad = torch.nn.functional.pad
    held = {
        "rows in turn": torch.stack([weights["a"], weights["b"]], 1).flatten(0, 1),
        "blocks in turn": torch.stack([weights["c"].unflatten(0, (3, 4)), weights["d"].unflatten(0, (3, 4))], 1)
        .flatten(0, 2).t().contiguous(),
        "pairs of rows": weights["e"].unflatten(0, (4, 2)).transpose(1, 2).flatten(1),
        "padded": pad(weights["f"].t(), (0, 5)),
        "padded on both sides": pad(weights["g"], (1, 0)),
        "padded and spoilt": pad(weights["g"], (0, 3), value=1.0),
    }  # fmt: skip
    found, alike = packings(weights, held)
    assert ({p.name: p.names for p in found}, alike) == ({
        "rows in turn": ("a", "b"), "blocks in turn": ("c", "d"), "pairs of rows": ("e",), "padded": ("f",),
    }, ())  # fmt: skip
    other = {name: torch.randn(shape) for name, shape in shapes.items()}
    for packing in found:
        assert packed(packing, weights).equal(held[packing.name])
        back = unpacked(packing, packed(packing, other))
        assert all(back[name].equal(other[name]) and back[name].is_contiguous() for name in packing.names)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_are_found_and_undone(dtype):
    torch.manual_seed(0)
    shapes = {"a": (6, 4), "b": (6, 4), "c": (6, 4), "d": (12, 5), "e": (9,), "f": (6,)}
    weights = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    weights["e"][::2], weights["f"] = 0, torch.ones(6, dtype=dtype)
    held = {
        "joined": torch.cat([weights["a"] * 96**-0.5, weights["b"], weights["c"] / -3]),
        "turned": (weights["d"] * 0.3).t().contiguous(),
        "alone": weights["e"] * -0.125,
        "ones": weights["f"] * 2,
        "no number": weights["d"] * (1 + torch.arange(5)).to(dtype),
    }
    found, alike = packings(weights, held)
    scales = {p.name: [round(w.scale, 3) for w in p.weights] for p in found}
    assert (scales, alike) == ({"joined": [0.102, 1, -0.333], "turned": [0.3], "alone": [-0.125]}, ())
    other = {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}
    for packing in found:
        torch.testing.assert_close(packed(packing, weights), held[packing.name])
        back = unpacked(packing, packed(packing, other))
        for name in packing.names:
            torch.testing.assert_close(back[name], other[name])
    names = Names({}, packings=found)
    given = names.given(other)
    assert all(tensor.equal(other[name]) for name, tensor in names.told(given).items())
    given["turned"] = given["turned"] * 1.5
    assert not names.told(given)["d"].equal(other["d"]) and names.told(given)["a"].equal(other["a"])


def test_weights_that_fit_in_several_ways_are_named():
    torch.manual_seed(0)
    equal = {"a": torch.ones(3), "b": torch.ones(3), "c": torch.randn(2, 3)}
    found = pairs(equal, {"ab": torch.ones(6), "c": equal["c"]})
    assert [p.names for p in found.packings] == [("a", "b")]
    assert found.guessed == ("a",)
    assert packings({"w": torch.ones(2, 2)}, {"v": torch.ones(4)})[1] == ("w",)


@pytest.mark.parametrize(
    "tensor", [torch.randn(3, 2).half(), torch.randn(4, 2), torch.zeros(()), torch.randn(2, 3)]
)
def test_other_dtypes_sizes_and_values_are_no_layout(tensor):
    torch.manual_seed(1)
    assert packings({"w": torch.randn(3, 2)}, {"held": tensor}) == ((), ())


def test_what_ends_otherwise_is_compared_no_further(monkeypatch):
    torch.manual_seed(0)
    compared, times = [], _packed._times
    monkeypatch.setattr(_packed, "_times", lambda *a, **k: compared.append(1) or times(*a, **k))
    weights = {f"w{i}": torch.randn(24, 24) for i in range(4)}
    assert packings(weights, {f"h{i}": torch.randn(24, 24) for i in range(4)}) == ((), ()) and not compared
    ends_alike = weights["w0"].clone()
    ends_alike[1, 1] += 1
    assert packings(weights, {"h": ends_alike}) == ((), ()) and compared


@pytest.mark.parametrize("end", [0, -1])
@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), float("inf")])
def test_any_value_may_lie_at_an_end(end, value):
    torch.manual_seed(0)
    weight = torch.randn(3, 2)
    weight[end, end] = value
    assert packings({"w": weight}, {"h": weight.t().contiguous()})[0][0].names == ("w",)


def test_a_worker_that_reports_other_sizes_is_not_believed():
    packing = Packing(
        name="w", shape=(2, 3), axis=0, weights=(PackedWeight(name="a", shape=(3, 2), order=(1, 0)),)
    )
    assert Names({}, packings=(packing,)).told({"w": torch.zeros(5)}) == {}
