"""TritonBench: kernels of public repositories (G) and functions aligned with PyTorch (T), each with a test.

Source: Li et al., TritonBench: Benchmarking Large Language Model Capabilities for Generating Triton Operators,
arXiv 2502.14752.
"""

from pathlib import Path

from ..records import Task
from ._modules import LIMIT_S, needs_gpu
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import PROBLEM
from ._tested import (
    FIRST,
    TestedForm,
    entry_of,
    named_in,
    on_cpu,
    parts_of,
    symbol_of,
    written,
    written_executed,
)  # fmt: skip

_FOLDERS = {"G": "data/TritonBench_G_v1", "T": "data/TritonBench_T_v1"}


class TritonBench(TestedForm):
    """The adapter of TritonBench."""

    name = "tritonbench"
    title = "TritonBench: Triton operators of public repositories (G), and functions aligned with PyTorch (T)"
    repository = "thunlp/TritonBench"
    commit = "603e28a5050e8c268f6883a69709d477a272d49a"
    layout = tuple(_FOLDERS.values())
    rules = Rules(
        correctness="call accuracy: the test runs with the kernel in place of the function; execution accuracy: it "
        "prints the same text, which most tests leave empty",
        timing="median of a set of sizes by Triton's do_bench",
        score="call and execution accuracy; speedup over the reference",
        trials=1, tolerance=0.0, timed=100, seed=0,
        here="of T the first call of the test is timed, by the host's clock; the references of G are Triton kernels, "
        "which are executed: a kernel is compared with them on the first call of the test, and nothing is timed",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of both halves."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f"{half}/{f.stem}", group=half, file=f.relative_to(data).as_posix()
            )
            for half, folder in _FOLDERS.items()
            for f in sorted((data / folder).glob("*.py"))
        )

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the function as a module on the arguments of the first call in its test, on the CPU."""
        text, test = parts_of((data / problem.file).read_text())
        path = folder / PROBLEM
        if "import triton" in text:
            symbol, call = entry_of(text, test, problem.name)
            path.write_text(written_executed(text, test, symbol, call))
            return path
        path.write_text(written(text, test, symbol_of(text, test, problem.name), FIRST))
        return path

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its call and execution accuracy; None if the kernel can only run on a GPU."""
        kernel, executed = parts_of(candidate)[0], task.reference.executed
        if needs_gpu(kernel) and not executed:
            return None
        text, test = parts_of((data / problem.file).read_text())
        given = {
            "reference": on_cpu(text), "submission": kernel, "test": on_cpu(test),
            "symbol": named_in(task), "timed": self.rules.timed,
            "executed": executed,
        }  # fmt: skip
        return Script("tritonbench", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()
