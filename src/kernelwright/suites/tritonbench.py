"""TritonBench: kernels of public repositories (G) and functions aligned with PyTorch (T), each with a test.

Source: Li et al., TritonBench: Benchmarking Large Language Model Capabilities for Generating Triton Operators,
arXiv 2502.14752.
"""

import functools
import json
import re
from collections.abc import Mapping
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

_DESCRIBED = re.compile(r"Functional Description: (.+?)Wrapper Entry Information:", re.DOTALL)
_DESCRIPTIONS = "data/TritonBench_T_v1.jsonl"
_MARKS = re.compile(r"<\|im_end\|>|<\|EOT\|>")
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

    def quoted(self, record: Mapping[str, object], data: Path) -> tuple[str, str] | None:
        """Return what a line of a model's answers is for: `label` quotes a file of G, a prompt a description of T."""
        answer, label = record.get("predict"), record.get("label")
        if not isinstance(answer, str):
            return None
        prompt = " ".join(str(value) for key, value in record.items() if key not in {"predict", "label"})
        asked = _DESCRIBED.search(prompt)
        if asked is None and not (isinstance(label, str) and label.strip()):
            return None
        said = _plain(asked[1] if asked else str(label))
        known = _descriptions(data) if asked else _files(data)
        name = next((name for name, text in known.items() if said in text), None)
        return (name, _code_in(answer)) if name else None

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()


@functools.lru_cache(1)
def _descriptions(data: Path) -> dict[str, str]:
    """Return what each function of T is described by."""
    file = data / _DESCRIPTIONS
    listed = json.loads(file.read_text()) if file.is_file() else ()
    return {f"T/{Path(one['file']).stem}": _plain(one["description"]) for one in listed}


@functools.lru_cache(1)
def _files(data: Path) -> dict[str, str]:
    """Return the text of each file of G."""
    return {f"G/{f.stem}": _plain(f.read_text()) for f in sorted((data / _FOLDERS["G"]).glob("*.py"))}


def _plain(text: str) -> str:
    """Return a text without space and the marks of chat models.

    Example:
        >>> _plain("adds\\n two<|im_end|>")
        'addstwo'
    """
    return "".join(_MARKS.sub("", text).split())


def _code_in(answer: str) -> str:
    """Return an answer's last block of Python; all of it if it has none.

    Example:
        >>> _code_in("Here: ```python\\nx = 1\\n``` as asked")
        'x = 1\\n'
    """
    return _MARKS.sub("", answer.rpartition("```python\n")[2].partition("```")[0])
