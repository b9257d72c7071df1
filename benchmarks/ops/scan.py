"""Scans against torch's own words: by chunks with batched products, step by step, and torch.compile of those, forward.

    python -m benchmarks.ops.scan [--only linear] [--threads 1] [--rounds 15] [--without compile] [--out rows.jsonl]

Sizes are batch x heads x length x inner x columns; of the selective scan batch x length x channels x states.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.ops._turns import Case, backward, compiled, main
from kernelwright.ops import scan
from kernelwright.ops.scan import reference

HEADS = ((1, 4, 1024, 64, 64), (2, 8, 512, 64, 128), (1, 16, 256, 128, 64), (1, 2, 2048, 128, 128))
STEPS = ((1, 32, 1, 64, 64), (8, 16, 1, 128, 128))
CHANNELS = ((1, 512, 512, 16), (2, 256, 1024, 16), (1, 1024, 256, 16), (4, 128, 512, 64))
ONE = ((1, 1, 2048, 16), (16, 1, 2048, 16))
_CHUNK = 64


def chunked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """Return linear attention by chunks: products of all chunks at once, the states one after another."""
    b, h, length, inner = q.shape
    n = length // _CHUNK
    qs, ks, vs = (x.view(b, h, n, _CHUNK, -1) for x in (q, k, v))
    sums = decay.view(b, h, n, _CHUNK).cumsum(-1)
    apart = (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    within = (qs @ ks.transpose(-1, -2) * apart) @ vs
    added = (ks * (sums[..., -1:] - sums).exp()[..., None]).transpose(-1, -2) @ vs
    state, before = q.new_zeros(b, h, inner, v.shape[-1]), []
    for i in range(n):
        before.append(state)
        state = state * sums[:, :, i, -1, None, None].exp() + added[:, :, i]
    across = (qs * sums.exp()[..., None]) @ torch.stack(before, 2)
    return (within + across).view(b, h, length, -1)


def _heads(b: int, h: int, length: int, inner: int, columns: int) -> list[torch.Tensor]:
    k = torch.nn.functional.normalize(torch.randn(b, h, length, inner), dim=-1)
    return [
        torch.randn(b, h, length, inner),
        k,
        torch.randn(b, h, length, columns),
        -torch.rand(b, h, length),
    ]


def _own(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    return scan.linear_attention(q, k, v, decay=decay)[0]


def _pair(form: Callable[..., Any], tensors: list[torch.Tensor], back: bool) -> Callable[[], object]:
    return backward(form, tensors) if back else lambda: form(*tensors)


def _linear() -> Iterator[Case]:
    for size in HEADS:
        for back in (False, True):
            tensors = _heads(*size)
            forms = {"kernel": _own, "chunks": chunked} | ({} if back else {"compile": compiled(chunked)})
            calls = {name: _pair(form, tensors, back) for name, form in forms.items()}
            yield Case(
                "linear backward" if back else "linear", "x".join(map(str, size)), "float32", calls, 1e-3
            )


def _decode() -> Iterator[Case]:
    for size in STEPS:
        q, k, v, decay = _heads(*size)
        state, beta = torch.randn(*size[:2], *size[3:]), torch.rand(*size[:3])
        own = {"decay": decay, "state": state}
        forms = {
            "linear step": {
                "kernel": partial(scan.linear_attention, q, k, v, **own),
                "eager": partial(reference.linear, q, k, v, **own),
                "compile": partial(compiled(reference.linear), q, k, v, **own),
            },
            "delta step": {
                "kernel": partial(scan.gated_delta_rule, q, k, v, beta, **own),
                "eager": partial(reference.delta, q, k, v, beta, **own),
                "compile": partial(compiled(reference.delta), q, k, v, beta, **own),
            },
        }
        for op, calls in forms.items():
            yield Case(op, "x".join(map(str, size)), "float32", calls)


def _delta() -> Iterator[Case]:
    for size in HEADS:
        q, k, v, decay = _heads(*size)
        given, own = (q, k, v, torch.rand(*size[:3])), {"decay": decay}
        calls = {
            "kernel": partial(scan.gated_delta_rule, *given, **own),
            "steps": partial(reference.delta, *given, **own),
        }
        yield Case("delta", "x".join(map(str, size)), "float32", calls, 1e-3)


def _selective() -> Iterator[Case]:
    for size in (*CHANNELS, *ONE):
        batch, length, channels, states = size
        u, step = torch.randn(batch, length, channels), torch.rand(batch, length, channels)
        a, b, c = (
            -torch.rand(channels, states),
            torch.randn(batch, length, states),
            torch.randn(batch, length, states),
        )
        for back in (False, True) if length > 1 else (False,):
            calls = {
                name: _pair(lambda *x, form=form: form(*x)[0], [u, step, a, b, c], back)
                for name, form in {"kernel": scan.selective_scan, "steps": reference.selective}.items()
            }
            op = "selective backward" if back else "selective" if length > 1 else "selective step"
            yield Case(op, "x".join(map(str, size)), "float32", calls, 1e-3)


def cases(only: str) -> Iterator[Case]:
    """Make the cases of each scan."""
    torch.manual_seed(0)
    for word, make in (("linear", _linear), ("step", _decode), ("delta", _delta), ("selective", _selective)):
        if only in word:
            yield from make()


if __name__ == "__main__":
    main(cases, "benchmarks.ops.scan")
