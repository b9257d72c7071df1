"""TritonBench: kernels of public repositories (G) and functions aligned with PyTorch (T), each with a test.

Source: Li et al., TritonBench: Benchmarking Large Language Model Capabilities for Generating Triton Operators,
arXiv 2502.14752.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Task
from ._modules import LIMIT_S, by_name, needs_gpu
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import FLAT, PROBLEM, STRUCTURE, calling
from ._submission import Submission, submission_of

_FOLDERS = {"G": "data/TritonBench_G_v1", "T": "data/TritonBench_T_v1"}
_LINE = re.compile(r"^#{20,}\s*$", re.MULTILINE)
_FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)
_ACCELERATOR = re.compile(r"""(['"])cuda(?::\d+)?\1|\.cuda\(\)""")
_MODEL = """

kw_native, kw_known = SYMBOL, []


class KwCalled(BaseException):
    \"\"\"The test calls the function.\"\"\"


def kw_drawn():
    \"\"\"Run the benchmark's test up to its first call of the function, and return the arguments of that call.\"\"\"
    def called(*arguments, **named):
        raise KwCalled(list(arguments), named)

    try:
        with torch.device("cpu"):
            exec(kw_test, {**globals(), "SYMBOL": called})
    except KwCalled as call:
        return call.args
    raise ValueError("the test calls no function")


def kw_data(tensors):
    if not kw_known:
        kw_known.append(kw_drawn())
    return kw_served(kw_known[0], tensors)


class Model(torch.nn.Module):
    def forward(self, *tensors):
        arguments, named = kw_data(tensors)
        return kw_native(*arguments, **named)


def get_inputs():
    return [t.detach() for t in kw_flat(kw_drawn())]
"""
_FORM = f"""{FLAT}

def SYMBOL(*arguments, **named):
    return found_kernel(kw_flat((arguments, named)), {{}})
"""


class TritonBench:
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
        here="problems of G are not loaded: their references are Triton kernels, which a CPU interprets; of T the "
        "first call of the test is timed, by the host's clock",
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
        if "import triton" in text:
            raise TaskError(
                f"the reference of {problem.name} is a Triton kernel; a CPU interprets it, which is no baseline"
            )
        symbol = symbol_of(text, test, problem.name)
        model = _MODEL.replace("SYMBOL", symbol)
        path = folder / PROBLEM
        path.write_text(f"{_on_cpu(text)}\n{STRUCTURE}\nkw_test = {_on_cpu(test)!r}\n{model}")
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems."""
        return by_name(folder, problems)

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls the file's function on the arguments of the test."""
        symbol = _named_in(task)
        return calling(task, file, symbol, f"{symbol}(*data[0], **data[1])")

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a function of the benchmark's name that calls the kernel."""
        return submission_of(task, candidate, _FORM.replace("SYMBOL", _named_in(task)))

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its call and execution accuracy; None if the kernel can only run on a GPU."""
        kernel = parts_of(candidate)[0]
        if needs_gpu(kernel):
            return None
        text, test = parts_of((data / problem.file).read_text())
        given = {
            "reference": _on_cpu(text), "submission": kernel, "test": _on_cpu(test),
            "symbol": _named_in(task), "timed": self.rules.timed,
        }  # fmt: skip
        return Script("tritonbench", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()


def parts_of(text: str) -> tuple[str, str]:
    """Split a file at its line of number signs into kernel and test, which imports nothing of the file itself.

    A file without such a line has no test.

    Example:
        >>> parts_of("def f(x): ...\\n" + "#" * 40 + "\\nf(1)\\n")
        ('def f(x): ...\\n', '\\nf(1)\\n')
    """
    head, *rest = _LINE.split(text, maxsplit=1)
    named = "|".join(_FUNCTION.findall(head)) or "_"
    return head, re.sub(rf"(?m)^from ({named}) import .*$", "", rest[0]) if rest else ""


def symbol_of(text: str, test: str, name: str) -> str:
    """Return the function that the test calls: the last defined one of those it names.

    Raises:
        TaskError: it calls none.

    Example:
        >>> symbol_of("def help(x): ...\\ndef relu(x): ...", "def test_relu():\\n    relu(1)", "T/relu")
        'relu'
    """
    code = "\n".join(line for line in test.splitlines() if not line.lstrip().startswith("#"))
    called = [s for s in _FUNCTION.findall(text) if re.search(rf"(?<![\w.]){s}\(", code)]
    if not called:
        raise TaskError(f"the test of {name} calls no function of its file")
    return str(called[-1])


def _named_in(task: Task) -> str:
    """Return the function that a loaded problem is about."""
    text = task.reference.files[0].text
    found = re.search(r"^kw_native, kw_known = (\w+),", text, re.MULTILINE)
    assert found is not None, "every problem's file names it"
    return str(found[1])


def _on_cpu(text: str) -> str:
    return _ACCELERATOR.sub(lambda m: ".cpu()" if m[1] is None else '"cpu"', text)
