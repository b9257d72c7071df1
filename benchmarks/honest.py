"""How often the simplest honest kernel is refused: one that adds up term after term, in float32.

    python -m benchmarks.honest --seeds 10
    python -m benchmarks.honest --backward --only norm

Every own problem, at a small size, is evaluated by its reference under a mode that takes operators of several steps
apart and adds sums, means, variances, scans, products and convolutions up one term after another. Such an answer is
right, and the judge's comparison must say so on every workload that a verification has: search, hidden and confirm.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.errors import TaskError
from kernelwright.records import CheckStatus
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks._rounding import in_steps
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

from .problems import problems

MOST = 40_000
"""Elements of a problem."""


@dataclass
class Count:
    """Cases that were judged, and those of which the answer was refused."""

    judged: int = 0
    refused: tuple[str, ...] = ()


def main() -> None:
    """Print one line for each problem, and the share refused."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4, help="draws of every workload")
    parser.add_argument("--backward", action="store_true", help="forward and backward together")
    parser.add_argument("--only", default="", help="problems whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    total = Count()
    for _, path in problems():
        if options.only not in path.stem:
            continue
        begun = time.monotonic()
        try:
            oracle = load(path, backward=options.backward)
        except TaskError as error:
            print(f"{path.stem:36} {error}"[:120], flush=True)
            continue
        count = judge(oracle, [SystemRandom().getrandbits(48) for _ in range(options.seeds)])
        total.judged += count.judged
        total.refused += count.refused
        seconds = time.monotonic() - begun
        print(
            f"{path.stem:36} {len(count.refused):4} of {count.judged:5} {seconds:6.1f} s",
            *count.refused,
            flush=True,
        )
    print(f"{len(total.refused)} of {total.judged} answers refused")
    sys.exit(bool(total.refused))


def load(path: Path, *, backward: bool = False) -> Oracle:
    """Load a problem, shrunk."""
    return Oracle(Problem(load_task(path, max_elements=MOST, backward=backward)))


def judge(oracle: Oracle, seeds: Sequence[int]) -> Count:
    """Evaluate every workload under every seed term after term, and compare as the judge does."""
    count, problem = Count(), oracle.problem
    for workload in oracle.task.workloads:
        for seed in seeds:
            inputs, state = problem.inputs(workload, seed), problem.state(workload, seed)
            case = oracle.make(workload, seed, inputs, state)
            if not case.usable:
                continue
            with Running():
                answer = SimpleNamespace(outputs=problem.run_reference(workload, inputs, state).outputs)
            count.judged += 1
            if compare_outputs("correct", answer, case).status is not CheckStatus.PASS:
                count.refused += (workload.name,)
    return count


class Running(TorchDispatchMode):
    """Add up one term after another whatever is summed; torch does transposed convolutions, pools and half precision.

    Example:
        >>> with Running():
        ...     total = torch.full((4096,), 0.1).sum()
        >>> bool((total - 409.6).abs() > 0.01)
        True
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator, or its steps."""
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        if any(isinstance(a, Tensor) and a.dtype in (torch.float16, torch.bfloat16) for a in args):
            return func(*args, **kwargs)
        if (result := in_steps(self, func, args, kwargs)) is not NotImplemented:
            return result
        if args and isinstance(args[0], Tensor) and args[0].dtype is torch.float32:
            if name in ("sum", "mean", "var"):
                correction = kwargs.get("correction", 1)
                return _reduced(name, correction, *args).reshape(func(*args, **kwargs).shape)
            if name == "cumsum":
                return _prefixes(*args)
            if name in ("mm", "bmm"):
                return _product(*args)
            if name == "addmm":
                return kwargs.get("beta", 1) * args[0] + kwargs.get("alpha", 1) * _product(*args[1:])
            if name == "convolution" and not args[6]:
                return _convolution(*args)
        return func(*args, **kwargs)


def _reduced(name: str, correction: float, x: Tensor, dims: Any = None, *more: Any) -> Tensor:
    dims = [d % x.dim() for d in dims or range(x.dim())]
    x = x.permute(*(d for d in range(x.dim()) if d not in dims), *dims).flatten(x.dim() - len(dims))
    terms = x.shape[-1]
    if name != "var":
        return _added_up(x) / (terms if name == "mean" else 1)
    moved = x - _added_up(x)[..., None] / terms
    return _added_up(moved * moved) / (terms - (more[0] if more else correction))


def _prefixes(x: Tensor, axis: int) -> Tensor:
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.add.accumulate(x.detach().contiguous().numpy(), axis=axis))


def _added_up(x: Tensor) -> Tensor:
    return _prefixes(x, -1)[..., -1]


def _product(left: Tensor, right: Tensor) -> Tensor:
    total = torch.zeros(*left.shape[:-1], right.shape[-1])
    for k in range(left.shape[-1]):
        total = total + left[..., k : k + 1] * right[..., k : k + 1, :]
    return total


def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, _: bool, __: Any,
    groups: int,
) -> Tensor:  # fmt: skip
    rank = x.dim() - 2
    stride, padding, dilation = (list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation))
    x = pad(x, [p for v in reversed(padding) for p in (v, v)])
    size = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    ]
    parts = []
    for inputs, kernels in zip(x.chunk(groups, 1), weight.chunk(groups, 0), strict=True):
        total = torch.zeros(x.shape[0], kernels.shape[0], *size)
        for channel in range(inputs.shape[1]):
            for tap in np.ndindex(*weight.shape[2:]):
                window = tuple(
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, n, s in zip(tap, dilation, size, stride, strict=True)
                )
                factor = kernels[(slice(None), channel, *tap)].view(1, -1, *(1 for _ in size))
                total = total + inputs[(slice(None), slice(channel, channel + 1), *window)] * factor
        parts.append(total)
    y = torch.cat(parts, 1)
    return y if bias is None else y + bias.view(1, -1, *(1 for _ in size))


if __name__ == "__main__":
    main()
