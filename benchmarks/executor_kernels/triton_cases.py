# ruff: noqa: D103  (names and the head say all)
"""What the Triton kernels are given, and what float64 makes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.executor import Uninitialised


@dataclass(frozen=True)
class Launch:
    """A kernel's arguments, and each output with what is right."""

    function: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constants: dict[str, Any]
    outputs: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """What the launch writes, and what float64 says."""
    tolerance: float
    """Largest error, relative to the largest value of the output."""


Make = Callable[[torch.dtype], Launch]
CASES: dict[str, Make] = {}
HALF = (torch.float16, torch.bfloat16)
DTYPES: dict[str, tuple[torch.dtype, ...]] = {}
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.5e-2}


def case(*dtypes: torch.dtype) -> Callable[[Make], Make]:
    """Note what makes a launch, under its name, for each of some types."""

    def noted(make: Make) -> Make:
        CASES[make.__name__] = make
        DTYPES[make.__name__] = dtypes
        return make

    return noted


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Uninitialised:
    """Return an output that holds nothing yet."""
    return Uninitialised(torch.zeros(shape, dtype=dtype))


def launches() -> Iterator[tuple[str, torch.dtype]]:
    """Yield the name and type of each launch."""
    for name, dtypes in DTYPES.items():
        yield from ((name, dtype) for dtype in dtypes)


def _kernels() -> Any:
    from . import triton_kernels

    return triton_kernels


@case(torch.float32, *HALF)
def rms_norm(dtype: torch.dtype) -> Launch:
    x, w = torch.randn(7, 300).to(dtype), torch.randn(300).to(dtype)
    out, scales = empty(7, 300, dtype=dtype), empty(7)
    d = x.double()
    scale = (d.square().mean(1) + 1e-5).rsqrt()
    right = ((out.array, d * scale[:, None] * w.double()), (scales.array, scale))
    return Launch(
        _kernels().rms_norm, (7,), (x, w, out, scales, 300, 1e-5), {"BLOCK": 512}, right, TOLERANCE[dtype]
    )


@case(torch.float32, *HALF)
def rms_norm_backward(dtype: torch.dtype) -> Launch:
    x, g, w = torch.randn(9, 200).to(dtype), torch.randn(9, 200).to(dtype), torch.randn(200).to(dtype)
    d, e = x.double().requires_grad_(), w.double().requires_grad_()
    scale = (d.square().mean(1, keepdim=True) + 1e-5).rsqrt()
    (d * scale * e).backward(g.double())
    gx, gw, scales = empty(9, 200, dtype=dtype), torch.zeros(200), scale.detach().float().reshape(-1)
    right = ((gx.array, d.grad), (gw, e.grad))
    arguments = (x, w, scales, g, gx, gw, 9, 200)
    return Launch(_kernels().rms_norm_backward, (4,), arguments, {"BLOCK": 256}, right, TOLERANCE[dtype])


@case(torch.float32, *HALF)
def rope(dtype: torch.dtype) -> Launch:
    x, angle = torch.randn(5, 4, 64).to(dtype), torch.randn(5, 32)
    c, s, out = angle.cos(), angle.sin(), empty(5, 4, 64, dtype=dtype)
    a, b = x.double().chunk(2, -1)
    dc, ds = c.double()[:, None], s.double()[:, None]
    right = torch.cat([a * dc - b * ds, b * dc + a * ds], -1)
    return Launch(
        _kernels().rope, (20,), (x, c, s, out, 4), {"DIM": 64}, ((out.array, right),), TOLERANCE[dtype]
    )


@case(torch.float32, *HALF)
def cross_entropy(dtype: torch.dtype) -> Launch:
    logits, labels = (3 * torch.randn(5, 1000)).to(dtype), torch.randint(0, 1000, (5,))
    losses, grads = empty(5), empty(5, 1000, dtype=dtype)
    d = logits.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(d, labels, reduction="none")
    loss.sum().backward()
    right = ((losses.array, loss.detach()), (grads.array, d.grad))
    arguments = (logits, labels, losses, grads, 1000)
    return Launch(_kernels().cross_entropy, (5,), arguments, {"BLOCK": 256}, right, TOLERANCE[dtype])


@case(torch.float32, *HALF)
def swiglu(dtype: torch.dtype) -> Launch:
    a, b, g = torch.randn(3, 1000).to(dtype)
    outputs = [empty(1000, dtype=dtype) for _ in range(3)]
    d, e = a.double().requires_grad_(), b.double().requires_grad_()
    out = torch.nn.functional.silu(d) * e
    out.backward(g.double())
    right = tuple(zip((o.array for o in outputs), (out.detach(), d.grad, e.grad), strict=True))
    return Launch(_kernels().swiglu, (4,), (a, b, g, *outputs, 1000), {"BLOCK": 256}, right, TOLERANCE[dtype])


def _attention(
    dtype: torch.dtype, causal: bool
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k, v and a gradient, the output in float64 with its graph, each row's log-sum."""
    q, k, v, g = (torch.randn(2, 100, 32).to(dtype) for _ in range(4))
    d = [t.double().requires_grad_() for t in (q, k, v)]
    s = d[0] @ d[1].transpose(1, 2) * 32**-0.5
    if causal:
        s = s.masked_fill(~torch.ones(100, 100, dtype=torch.bool).tril(), -torch.inf)
    log_sums = s.logsumexp(2)
    out = (s - log_sums[:, :, None]).exp() @ d[2]
    out.backward(g.double())
    return (q, k, v, g), out.detach(), log_sums.detach(), torch.stack([t.grad for t in d])


def _forward(dtype: torch.dtype, causal: bool) -> Launch:
    (q, k, v, _), out, log_sums, _ = _attention(dtype, causal)
    made, sums = empty(2, 100, 32, dtype=dtype), empty(2, 100)
    constants = {"D": 32, "BM": 32, "BN": 32, "CAUSAL": causal}
    right = ((made.array, out), (sums.array, log_sums))
    return Launch(
        _kernels().attention,
        (4, 2),
        (q, k, v, made, sums, 100, 32**-0.5),
        constants,
        right,
        2 * TOLERANCE[dtype],
    )


@case(*HALF)
def attention(dtype: torch.dtype) -> Launch:
    return _forward(dtype, False)


@case(*HALF)
def causal_attention(dtype: torch.dtype) -> Launch:
    return _forward(dtype, True)


@case(*HALF)
def attention_backward(dtype: torch.dtype) -> Launch:
    (q, k, v, g), out, log_sums, grads = _attention(dtype, True)
    delta = (out * g.double()).sum(2).float()
    gq, gk, gv = torch.zeros(2, 100, 32), empty(2, 100, 32), empty(2, 100, 32)
    arguments = (q, k, v, g, log_sums.float(), delta, gq, gk, gv, 100, 32**-0.5)
    constants = {"D": 32, "BM": 32, "BN": 32, "CAUSAL": True}
    right = ((gq, grads[0]), (gk.array, grads[1]), (gv.array, grads[2]))
    return Launch(_kernels().attention_backward, (4, 2), arguments, constants, right, 3 * TOLERANCE[dtype])


@case(*HALF)
def experts(dtype: torch.dtype) -> Launch:
    tokens, count, k, n, tile = 20, 3, 48, 40, 16
    x, w = torch.randn(tokens, k).to(dtype), torch.randn(count, k, n).to(dtype)
    choice = torch.randint(0, count, (tokens, 2))
    weight = torch.rand(tokens, 2)
    rows, of, weights = [], [], []
    for e in range(count):
        at = (choice == e).nonzero()
        for start in range(0, len(at), tile):
            part = at[start : start + tile]
            spare = tile - len(part)
            rows += [*part[:, 0].tolist(), *[-1] * spare]
            weights += [*weight[part[:, 0], part[:, 1]].tolist(), *[0.0] * spare]
            of.append(e)
    out = torch.zeros(tokens, n)
    each = torch.einsum("tk,tckn->tcn", x.double(), w.double()[choice])
    right = (each * weight.double()[:, :, None]).sum(1)
    arguments = (
        x,
        w,
        out,
        torch.tensor(rows, dtype=torch.int32),
        torch.tensor(of, dtype=torch.int32),
        torch.tensor(weights),
        n,
        k,
    )
    constants = {"BM": tile, "BN": 32, "BK": 32}
    return Launch(
        _kernels().experts, (len(of), 2), arguments, constants, ((out, right),), TOLERANCE[torch.float32] * 5
    )


@case(*HALF)
def persistent_matmul(dtype: torch.dtype) -> Launch:
    a, b, c = torch.randn(100, 72).to(dtype), torch.randn(72, 90).to(dtype), empty(100, 90, dtype=dtype)
    constants = {"BM": 32, "BN": 32, "BK": 32, "GROUP": 2}
    right = a.double() @ b.double()
    return Launch(
        _kernels().persistent_matmul,
        (5,),
        (a, b, c, 100, 90, 72),
        constants,
        ((c.array, right),),
        TOLERANCE[dtype],
    )


@case(*HALF)
def int4_matmul(dtype: torch.dtype) -> Launch:
    x, packed = torch.randn(16, 128).to(dtype), torch.randint(0, 256, (50, 64), dtype=torch.uint8)
    scales, out = torch.rand(50) + 0.5, empty(16, 50)
    w = torch.stack([(packed & 15).int() - 8, (packed >> 4).int() - 8], 2).reshape(50, 128).double()
    right = x.double() @ w.T * scales.double()
    constants = {"K": 128, "BM": 16, "BN": 32}
    return Launch(
        _kernels().int4_matmul, (2,), (x, packed, scales, out, 50), constants, ((out.array, right),), 1e-4
    )


@case(torch.float32, *HALF)
def quantise(dtype: torch.dtype) -> Launch:
    x, out, scales = torch.randn(6, 200).to(dtype), empty(6, 200, dtype=torch.int8), empty(6)
    scale = x.double().abs().amax(1) / 127
    right = ((out.array, (x.float() / scale.float()[:, None]).round().double()), (scales.array, scale))
    return Launch(_kernels().quantise, (6,), (x, out, scales, 200), {"BLOCK": 256}, right, 1.0 / 127)


@case(torch.float32)
def recurrence(dtype: torch.dtype) -> Launch:
    g, x, out = torch.rand(4, 300), torch.randn(4, 300), empty(4, 300)
    h, right = torch.zeros(4, dtype=torch.float64), []
    for t in range(300):
        h = g[:, t].double() * h + x[:, t].double()
        right.append(h)
    constants = {"BLOCK": 512}
    return Launch(
        _kernels().recurrence,
        (4,),
        (g, x, out, 300),
        constants,
        ((out.array, torch.stack(right, 1)),),
        TOLERANCE[dtype],
    )


@case(torch.float32)
def convolution(dtype: torch.dtype) -> Launch:
    x, w = torch.randn(3, 17, 19), torch.randn(4, 3, 3, 3)
    out = empty(4, 15, 17)
    right = torch.nn.functional.conv2d(x.double()[None], w.double())[0]
    constants = {"C": 3, "BLOCK": 128, "R": 3}
    return Launch(
        _kernels().convolution,
        (4, 2),
        (x, w, out, 17, 19),
        constants,
        ((out.array, right),),
        TOLERANCE[dtype],
    )
