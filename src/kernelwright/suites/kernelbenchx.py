"""KernelBench-X: functions of fifteen categories, low precision among them; results of tests are compared.

Source: Wang et al., KernelBenchX: A Comprehensive Benchmark for Evaluating LLM-Generated GPU Kernels, arXiv 2605.04956.
"""

import json
import re
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Task
from ._modules import LIMIT_S, needs_gpu
from ._protocol import Script
from ._records import Rules, SuiteProblem
from ._structure import PROBLEM, calling
from ._tested import LARGEST, TestedForm, named_in, on_cpu, parts_of, symbol_of, written

_FOLDER, _MANIFEST, _DRAWS = "data/kernelbenchx", "data/kernelbenchx_v1.json", "utils/data_utils.py"
_ANY_NAME = "kernel_function"
"""What a kernel may be called whatever the problem."""
_OF_A_LIBRARY = re.compile(r"torch\.(quantize_per_\w+|dequantize|ops\.quantized)\b")


class KernelBenchX(TestedForm):
    """The adapter of KernelBench-X."""

    name = "kernelbench-x"
    title = "KernelBench-X: functions of fifteen categories, some under a contract of quantisation, with their tests"
    repository = "BonnieW05/KernelBenchX"
    commit = "fd4192293bf9a8c645327a9d46aa1e807f1f9cf2"
    layout = (_FOLDER, _MANIFEST, _DRAWS)
    rules = Rules(
        correctness="the test's results with the kernel and with the function, each after one public seed, in one "
        "process, kernel first: within 1e-5 (float32, float64) or 5e-3 (float16, bfloat16), others equal, NaN equal; "
        "under a contract of quantisation by cosine similarity, relative L1 error and root mean square error",
        timing="a script of each problem's own, by Triton's do_bench, against times recorded on six GPUs",
        score="call accuracy, execution accuracy, speedup over the recorded time",
        trials=1, tolerance=1e-5, timed=100, seed=0,
        here="the largest call of the test is timed by the host's clock, on new arguments; our verdict takes the "
        "function for what is right, so that it refuses a kernel that a contract of quantisation allows to be coarse",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of all categories."""
        return tuple(
            SuiteProblem.of_file(self.name, data, f) for f in sorted((data / _FOLDER).glob("*/*.py"))
        )

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Write the function as a module on the arguments of the largest call in its test, on the CPU."""
        text, test = parts_of((data / problem.file).read_text())
        draws = Path(_DRAWS)
        (folder / draws.name).write_text(on_cpu((data / _DRAWS).read_text()))
        path = folder / PROBLEM
        path.write_text(f"import {draws.stem}\n" + written(text, test, _symbol(text, test, problem), LARGEST))
        return path

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls the file's function, or its `kernel_function`, on the arguments of the test."""
        symbol = named_in(task)
        if symbol not in (text := file.read_text(errors="replace")) and _ANY_NAME in text:
            symbol = _ANY_NAME
        return calling(task, file, symbol, f"{symbol}(*data[0], **data[1])")

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its execution accuracy; None if the kernel can only run on a GPU."""
        kernel = parts_of(candidate)[0]
        if needs_gpu(kernel):
            return None
        text, test = parts_of((data / problem.file).read_text())
        given = {
            "reference": on_cpu(text), "submission": kernel, "test": on_cpu(test), "symbol": named_in(task),
            "any_name": _ANY_NAME, "draws": on_cpu((data / _DRAWS).read_text()), "seed": self.rules.seed,
            "timed": self.rules.timed, "thresholds": thresholds_of(data, problem),
        }  # fmt: skip
        return Script("kernelbench_x", given, LIMIT_S)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return whether it calls a library's quantisation, which the contracts of quantisation forbid."""
        return ("library quantisation",) if _OF_A_LIBRARY.search(candidate) else ()


def thresholds_of(data: Path, problem: SuiteProblem) -> dict[str, float] | None:
    """Return a problem's contract of quantisation: the limits of three errors; None if it has none."""
    found = json.loads((data / _MANIFEST).read_text())
    mine = (entry for entry in found if problem.file.endswith(str(entry.get("file"))))
    return next(
        (dict(entry["precision_thresholds"]) for entry in mine if "precision_thresholds" in entry), None
    )


def _symbol(text: str, test: str, problem: SuiteProblem) -> str:
    stem = problem.name.rpartition("/")[2]
    if not test:
        raise TaskError(f"{problem.name} has no test")
    return stem if re.search(rf"^def {stem}\(", text, re.MULTILINE) else symbol_of(text, test, problem.name)
