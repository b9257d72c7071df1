"""Activations and gated products beside torch's own, their gradients, unusual values and errors."""

import pytest
import torch
import torch.nn.functional as F
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.errors import InputError

SHAPES = ((1,), (3, 7), (64, 255), (2, 4096), (5, 4098), (0, 4), (3, 0))
TYPES = (torch.float32, torch.bfloat16)
own = ops.activations

FORMS = {
    "swiglu": (own.swiglu, lambda gate, up: F.silu(gate) * up),
    "geglu": (own.geglu, lambda gate, up: F.gelu(gate) * up),
    "geglu by tanh": (
        lambda gate, up: own.geglu(gate, up, approximate="tanh"),
        lambda gate, up: F.gelu(gate, approximate="tanh") * up,
    ),
    "swiglu of halves": (
        lambda gate, up: own.swiglu(torch.cat([gate, up], -1)),
        lambda gate, up: F.silu(gate) * up,
    ),
    "geglu of halves": (
        lambda gate, up: own.geglu(torch.cat([gate, up], -1)),
        lambda gate, up: F.gelu(gate) * up,
    ),
    "silu": (lambda gate, _: own.silu(gate), lambda gate, _: F.silu(gate)),
    "gelu": (lambda gate, _: own.gelu(gate), lambda gate, _: F.gelu(gate)),
    "gelu by tanh": (
        lambda gate, _: own.gelu(gate, approximate="tanh"),
        lambda gate, _: F.gelu(gate, approximate="tanh"),
    ),
}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def near(mine, exact, dtype):
    """Hold to float64: a relative error, and beside the largest number nothing."""
    assert mine.dtype is dtype
    relative = {torch.float32: 2e-6, torch.bfloat16: 2.0**-8}[dtype]
    torch.testing.assert_close(mine.double(), exact, rtol=relative, atol=relative / 4)


def gradients(form, tensors, g, again=False):
    leaves = [t.detach().requires_grad_() for t in tensors]
    found = torch.autograd.grad(form(*leaves), leaves, g, create_graph=again, allow_unused=True)
    if again:
        found = torch.autograd.grad(
            sum(f.square().sum() for f in found if f is not None), leaves, allow_unused=True
        )
    return [f for f in found if f is not None]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_forward_and_gradients_are_those_of_float64(form, shape, dtype):
    mine, theirs = FORMS[form]
    tensors = [(torch.randn(shape) * 3).to(dtype) for _ in range(2)]
    g = torch.randn(shape).to(dtype)
    wide = [t.double() for t in tensors]
    near(mine(*tensors), theirs(*wide), dtype)
    for one, other in zip(gradients(mine, tensors, g), gradients(theirs, wide, g.double()), strict=True):
        near(one, other, dtype)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_gradients_are_right_too(form):
    mine, theirs = FORMS[form]
    tensors = [torch.randn(5, 9) for _ in range(2)]
    g, wide = torch.randn(5, 9), [t.double() for t in tensors]
    exact = gradients(theirs, wide, g.double(), True)
    for one, other in zip(gradients(mine, tensors, g, True), exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["silu", "gelu", "gelu by tanh"])
def test_the_edges_of_what_floats_hold(form):
    x = torch.tensor([0.0, -0.0, 1e30, -1e30, 88.0, -87.0, -100.0, 1e-40, 15.0, 16.0, -16.0])
    mine, theirs = FORMS[form]
    exact = theirs(x.double(), None)
    result = mine(x, None)
    assert torch.equal(result.isfinite(), exact.float().isfinite())
    torch.testing.assert_close(result.double(), exact, rtol=1e-6, atol=1e-36)
    assert mine(torch.tensor([float("inf")]), None) == float("inf")
    assert mine(torch.tensor([float("nan")]), None).isnan()
    slopes = gradients(lambda t: mine(t, None), [x], torch.ones_like(x))[0]
    torch.testing.assert_close(
        slopes, torch.tensor([0.5, 0.5, 1, 0, 1, 0, 0, 0.5, 1, 1, 0]), atol=1e-5, rtol=1e-5
    )


def test_gelu_keeps_its_digits_far_below_zero():
    x = torch.linspace(-10, -4, 1001)
    wide = x.double()
    exact = wide * torch.special.erfc(-wide / 2**0.5) / 2  # torch's own gelu is zero there, in float64 too
    assert F.gelu(wide)[0] == 0
    assert ((own.gelu(x).double() - exact) / exact).abs().max() < 1e-5


def test_large_tensors_leave_past_the_caches_with_the_same_numbers():
    for dtype in TYPES:
        gate, up = (torch.randn(1700, 4097).to(dtype) for _ in range(2))
        few = slice(1600, 1609)
        assert torch.equal(own.swiglu(gate, up)[few], own.swiglu(gate[few], up[few]))
        both = torch.cat([gate, up], -1)
        assert torch.equal(own.swiglu(both)[few], own.swiglu(gate[few], up[few]))


def test_views_are_copied():
    both = torch.randn(6, 40)
    gate, up = both.chunk(2, -1)
    assert torch.equal(own.geglu(gate, up), own.geglu(both))
    assert [one.serves for one in ops.watch(lambda: own.geglu(gate, up))] == ["kernel"]


X = torch.randn(4, 6)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: own.silu([1.0]), "x is a list; expected a tensor"),
        (lambda: own.swiglu(X.long(), X), "gate is of torch.int64; expected float32"),
        (
            lambda: own.swiglu(X, X[:3]),
            r"up is of shape \(3, 6\), .*; expected \(4, 6\), torch.float32, as gate is",
        ),
        (lambda: own.swiglu(X, X.bfloat16()), "up is of shape .*bfloat16; expected"),
        (lambda: own.geglu(X[:, :5]), r"gate is of shape \(4, 5\); expected an even last axis"),
        (lambda: own.gelu(X, approximate="erf"), "approximate is 'erf'; expected 'none' or 'tanh'"),
        (lambda: own._one(X, 3), "curve is 3; expected 0, 1 or 2"),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_they_go_through_compile_with_gradients():
    def loss(gate, up):
        return own.geglu(own.swiglu(gate, up)).square().sum()

    tensors = [torch.randn(8, 34) for _ in range(2)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    g = torch.ones(())
    for one, other in zip(gradients(compiled, tensors, g), gradients(loss, tensors, g), strict=True):
        torch.testing.assert_close(one, other)


def test_every_op_is_registered_as_torch_asks():
    x, g = torch.randn(4, 6), torch.randn(4, 3)
    calls = {
        "activation": (x, 0), "activation_backward": (x, x, 1), "glu": (x, x, 2), "glu_backward": (x, x, x, 0),
        "glu_packed": (x, 1), "glu_packed_backward": (g, x, 2),
    }  # fmt: skip
    assert set(calls) == {op.name for op in ops.ops_of(own)} == set(own.KERNEL.symbols)
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, arguments)


MUTANTS = {
    "glu_backward": {
        "a slope without its second part": ("fma(x, 1.0f - s, splat(1.0f))", "splat(1.0f)"),
        "the rest of a chunk left out": (
            "std::min(kChunk, grid.n - begin)",
            "std::min(kChunk, (grid.n & ~15) - begin)",
        ),
    },
    "glu_packed": {
        "up read from the gate": ("{x.data + n, 2 * n}, kw::output", "{x.data, 2 * n}, kw::output")
    },
}


@pytest.mark.long
@pytest.mark.parametrize("op", MUTANTS)
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(op, tmp_path):
    found = verdicts("activations", op, MUTANTS[op], tmp_path)
    assert found == {"": "accepted", **dict.fromkeys(MUTANTS[op], "rejected")}
