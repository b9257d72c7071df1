"""BackendBench: overloads of aten operators, with the samples of torch's OpInfo; a backend is a folder of kernels.

Source: meta-pytorch/BackendBench, README.md, BackendBench/suite/opinfo.py and BackendBench/backends/directory.py.
"""

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import TaskError
from ..records import Task
from ._modules import LIMIT_S, needs_gpu, reference_text
from ._opinfo import Sampled, samples
from ._protocol import Script
from ._recorded_calls import CallForm, called_in, parsed, problem_of
from ._records import Rules, SuiteProblem

_SKIPPED, _SUITE = "BackendBench/op_categories.py", "BackendBench/suite/opinfo.py"
_LISTS = ("UNSUPPORTED_OPERATORS", "RANDOM_OPS", "TENSOR_CREATION_AND_MANIPULATION_OPS")
_STREAMS = ("cuda.stream", "cuda.Stream", "CUDAStream")


class BackendBench(CallForm):
    """The adapter of BackendBench's suite of OpInfo."""

    name, suffix = "backendbench", "_kernel_impl"
    title = "BackendBench: overloads of aten operators, by the samples of torch's OpInfo"
    repository = "meta-pytorch/BackendBench"
    commit = "66e0dbc05a683e537830c246ea83255ff227676f"
    layout = (_SKIPPED, _SUITE)
    rules = Rules(
        correctness="on every OpInfo sample whose call is this one overload, `assert_close` at 1e-2, NaN equal",
        timing="mean of 100 calls after 10 on a CPU; do_bench on a GPU; of the suite of OpInfo nothing is timed",
        score="share of samples that are right; perf@p: share of operators that are right and more than p times as "
        "fast",
        trials=1, tolerance=1e-2, timed=100, seed=0,
        here="float32; the largest sample is our task, its values drawn evenly between the least and the greatest of "
        "the sample, and it is timed by the benchmark's CPU clock",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the overloads that OpInfo's samples call, by the kind of their operator."""
        skipped = left_out((data / _SKIPPED).read_text(), _LISTS)
        return tuple(
            SuiteProblem(suite=self.name, name=_folder(overload), group=_group(found.op), file=_SUITE)
            for overload, found in samples().items()
            if overload not in skipped
        )

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the overload's largest sample."""
        del data
        overload, found = _known(problem.name)
        call = parsed(found.call)
        ranged = zip(call.tensors, found.ranges, strict=True)
        call.tensors = [replace(tensor, low=low, high=high) for tensor, (low, high) in ranged]
        path = folder / f"{problem.name}.py"
        path.write_text(problem_of(f"aten.{overload}", call))
        return path

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its correctness on all samples; None if the kernel can only run on a GPU."""
        del data
        if needs_gpu(candidate):
            return None
        overload, found = _known(problem.name)
        parameters, arguments = called_in(task)
        given = {
            "reference": reference_text(task), "submission": candidate, "symbol": task.name + self.suffix,
            "parameters": parameters, "arguments": arguments, "op": found.op, "variant": found.variant,
            "overload": overload, "indices": list(found.indices), "tolerance": self.rules.tolerance,
            "timed": self.rules.timed,
        }  # fmt: skip
        return Script("backendbench", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return whether it uses streams of its own, for which the benchmark refuses it."""
        return streams_in(candidate)


def streams_in(candidate: str) -> tuple[str, ...]:
    """Return whether a kernel uses streams of its own.

    Example:
        >>> streams_in("with torch.cuda.stream(s): ...")
        ('own streams',)
    """
    return ("own streams",) if any(word in candidate for word in _STREAMS) else ()


def left_out(text: str, lists: Sequence[str]) -> set[str]:
    """Return the overloads that lists of a checkout's `op_categories.py` have.

    Example:
        >>> left_out("RANDOM_OPS = ['bernoulli.default']\\nOTHER = ['add.Tensor']", ["RANDOM_OPS"])
        {'bernoulli.default'}
    """
    found: set[str] = set()
    for node in ast.parse(text).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in lists
        ):
            found |= set(ast.literal_eval(node.value))
    return found


def _folder(overload: str) -> str:
    return overload.replace(".", "__")


def _known(name: str) -> tuple[str, Sampled]:
    found = {_folder(overload): (overload, sampled) for overload, sampled in samples().items()}
    if name not in found:
        raise TaskError(f"no sample of this torch's OpInfo calls {name} alone")
    return found[name]


def _group(op: str) -> str:
    return op.rpartition(".")[0] or "tensor"
