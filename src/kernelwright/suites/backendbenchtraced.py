"""BackendBench's suite of recorded models: overloads of aten operators, with the calls that models made of them.

Source: meta-pytorch/BackendBench, BackendBench/suite/torchbench.py and BackendBench/data_loaders.py.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from ..errors import MissingToolError, TaskError
from ..records import Task
from ._modules import LIMIT_S, needs_gpu
from ._protocol import Script
from ._recorded_calls import CallForm, calls_in, most_frequent, parsed, problem_of
from ._records import Rules, SuiteProblem
from .backendbench import left_out, streams_in

_SKIPPED, _TRACES = "BackendBench/op_categories.py", "traces"
_UNSUPPORTED = ("UNSUPPORTED_OPERATORS",)
_MOST_CALLS, _MOST_ELEMENTS = 8, 1 << 20


class BackendBenchTraced(CallForm):
    """The adapter of BackendBench's suite of recorded models."""

    name, suffix = "backendbench-traced", "_kernel_impl"
    title = "BackendBench: overloads of aten operators, by calls of recorded models that lie in traces/"
    repository = "meta-pytorch/BackendBench"
    commit = "66e0dbc05a683e537830c246ea83255ff227676f"
    layout = (_SKIPPED, _TRACES)
    rules = Rules(
        correctness="on every recorded call `assert_close` at 1e-2, NaN equal",
        timing="mean of 100 calls after 10 on a CPU; do_bench on a GPU; geometric mean over the calls",
        score="share of calls that are right; perf@p: share of operators that are right and more than p times as fast",
        trials=1, tolerance=1e-2, timed=100, seed=0,
        here="the call that was seen most often is our task; by its rules at most 8 calls of at most a million "
        "elements, the most frequent first, at their recorded sizes",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the overloads of which a call is recorded, by the file that has it first."""
        skipped = left_out((data / _SKIPPED).read_text(), _UNSUPPORTED)
        found: dict[str, SuiteProblem] = {}
        for file in _files(data):
            for operator in sorted(_recorded(file)):
                name = operator.removeprefix("aten.").replace(".", "__")
                if operator.startswith("aten.") and not any(one in operator for one in skipped):
                    path = file.relative_to(data).as_posix()
                    found.setdefault(
                        name, SuiteProblem(suite=self.name, name=name, group=file.stem, file=path)
                    )
        return tuple(found.values())

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the overload's most frequent call; its floats are drawn between 0 and 1, as the benchmark does."""
        call = most_frequent(_operator(problem), _recorded(data / problem.file))
        call.tensors = [replace(t, low=0, high=1) if "float" in t.dtype else t for t in call.tensors]
        path = folder / f"{problem.name}.py"
        path.write_text(problem_of(_operator(problem), call))
        return path

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its comparison and timing of recorded calls; None if the kernel can only run on a GPU."""
        if needs_gpu(candidate):
            return None
        given = {
            "submission": candidate, "symbol": task.name + self.suffix, "operator": _operator(problem),
            "calls": list(_judged(_recorded(data / problem.file)[_operator(problem)])),
            "tolerance": self.rules.tolerance, "timed": self.rules.timed,
        }  # fmt: skip
        return Script("backendbench_traced", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return whether it uses streams of its own, for which the benchmark refuses it."""
        return streams_in(candidate)


def _operator(problem: SuiteProblem) -> str:
    name, _, overload = problem.name.rpartition("__")  # the name of one in place ends with another
    return f"aten.{name}.{overload}"


def _files(data: Path) -> list[Path]:
    """Return the recordings, in the two forms that the benchmark reads."""
    return sorted(f for f in (data / _TRACES).iterdir() if f.suffix in {".txt", ".parquet"})


@lru_cache(maxsize=4)
def _recorded(file: Path) -> dict[str, Counter[str]]:
    """Return the calls of a recording by operator, and how often each was seen.

    Raises:
        MissingToolError: it is a table that only pyarrow reads.
    """
    if file.suffix == ".txt":
        return calls_in(file.read_text())
    try:
        parquet = import_module("pyarrow.parquet")  # has no types, and may not be here
    except ImportError:
        raise MissingToolError(
            f"{file.name} is read with the package pyarrow; `pip install 'kernelwright[parquet]'`"
        ) from None
    seen: dict[str, Counter[str]] = {}
    columns = ["op_name", "args", "count", "included_in_benchmark"]
    for row in parquet.read_table(file, columns=columns).to_pylist():
        if row["included_in_benchmark"]:
            seen.setdefault(row["op_name"], Counter())[row["args"]] += int(row["count"])
    return seen


def _judged(calls: Counter[str]) -> Iterator[str]:
    """Yield the calls that the benchmark's rules are run on."""
    count = 0
    for text, _ in calls.most_common():
        try:
            fits = parsed(text).elements <= _MOST_ELEMENTS
        except TaskError:  # something of which no argument can be made
            continue
        if fits and count < _MOST_CALLS:
            count += 1
            yield text
