"""Steps of optimizers against torch's own (fused, foreach, one parameter after another) and torch.compile.

    python -m benchmarks.ops.optim [--only adamw] [--threads 1] [--rounds 15] [--out rows.jsonl]

A case is a list of parameters, written as `count x shape`. Each contestant moves parameters of its own from the same
start; every parameter is compared before anything is timed. `adamw bytes` holds the kernel to passes of torch that move
the bytes of a step and do nothing else, so its ratio is the kernel's share of the byte bound.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.ops._turns import Case, main
from kernelwright.ops import optim
from kernelwright.ops.optim import reference

SIZES: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, (1000,)), (200, (64,)), (100, (256, 32)), (1, (512, 512)), (20, (512, 512)), (1, (4096, 2048)),
    (6, (2048, 2048)),
)  # fmt: skip
Make = Callable[[list[torch.Tensor]], Any]


def _foreach_lion(params: list[torch.Tensor], grads: list[torch.Tensor], means: list[torch.Tensor]) -> None:
    update = torch._foreach_lerp(means, grads, 0.1)
    torch._foreach_sign_(update)
    torch._foreach_mul_(params, 1 - 1e-3 * 0.1)
    torch._foreach_add_(params, update, alpha=-1e-3)
    torch._foreach_lerp_(means, grads, 0.01)


def _lion(params: list[torch.Tensor], grads: list[torch.Tensor], means: list[torch.Tensor]) -> None:
    for p, g, m in zip(params, grads, means, strict=True):
        moved, mean = reference.lion(p, g, m, 1e-3, 0.9, 0.99, 0.1)
        p.copy_(moved)
        m.copy_(mean)


class _Steps:
    """A step of Lion as torch writes it, on state of its own."""

    def __init__(self, params: list[torch.Tensor], form: Callable[..., None]) -> None:
        self.params, self.means, self.form = params, [torch.zeros_like(p) for p in params], form

    @torch.no_grad()
    def step(self) -> None:
        self.form(self.params, [p.grad for p in self.params], self.means)


def _compiled(optimizer: Any) -> Any:
    optimizer.step = torch.compile(optimizer.step)
    return optimizer


ADAM = {"lr": 1e-3, "weight_decay": 0.1}
FORMS: dict[str, dict[str, Make]] = {
    "adamw": {
        "kernel": lambda p: optim.AdamW(p, **ADAM),
        "fused": lambda p: torch.optim.AdamW(p, fused=True, **ADAM),
        "foreach": lambda p: torch.optim.AdamW(p, foreach=True, **ADAM),
        "compile": lambda p: _compiled(torch.optim.AdamW(p, foreach=True, **ADAM)),
    },
    "lion": {
        "kernel": lambda p: optim.Lion(p, lr=1e-3, weight_decay=0.1),
        "foreach": lambda p: _Steps(p, _foreach_lion),
        "compile": lambda p: _Steps(p, torch.compile(_lion)),
    },
    "adafactor": {
        "kernel": lambda p: optim.Adafactor(p, lr=1e-3),
        "foreach": lambda p: torch.optim.Adafactor(p, lr=1e-3, foreach=True),
        "each": lambda p: torch.optim.Adafactor(p, lr=1e-3, foreach=False),
    },
}


def _case(op: str, count: int, shape: tuple[int, ...]) -> Case:
    values = [torch.randn(shape) for _ in range(count)]
    slopes = [torch.randn(shape) for _ in range(count)]
    calls: dict[str, Callable[[], object]] = {}
    for name, make in FORMS[op].items():
        params = [torch.nn.Parameter(v.clone()) for v in values]
        for p, g in zip(params, slopes, strict=True):
            p.grad = g
        optimizer = make(params)

        def step(optimizer: Any = optimizer, params: list[Any] = params) -> object:
            optimizer.step()
            return tuple(params)

        calls[name] = step
    return Case(op, f"{count}x{'x'.join(map(str, shape))}", "float32", calls, 1e-4)


def _bytes(count: int, shape: tuple[int, ...]) -> Case:
    """Read four tensors and write three, as a step of AdamW does: 28 bytes a float32 element."""
    case = _case("adamw", count, shape)
    moved = [torch.randn(shape) for _ in range(3 * count)]
    read = [torch.randn(shape) for _ in range(count)]

    def passes() -> object:
        for x in moved:
            x.neg_()
        for x in read:
            x.amax()
        return ()

    return Case("adamw bytes", case.size, case.dtype, {"kernel": case.contestants["kernel"], "bytes": passes})


def cases(only: str) -> Iterator[Case]:
    """Make the cases of each optimizer."""
    for op in FORMS:
        if only in op:
            for count, shape in SIZES:
                torch._dynamo.reset()
                yield _case(op, count, shape)
    if only in "adamw bytes":
        for count, shape in SIZES[-3:]:
            yield _bytes(count, shape)


if __name__ == "__main__":
    main(cases, "benchmarks.ops.optim")
