"""KernelBench-v3: KernelBench's form, fewer and newer problems; a kernel is a file with `Model`, as the reference is.

Source: Infatoshi/kernelbench.com, benchmarks/v3 (problems, src/eval/benchmark.py and guardrails.py).
"""

import re
from pathlib import Path

from ..records import Candidate, Task
from ..tasks import load_candidate
from ._modules import ModuleForm, copied
from ._records import Rules, SuiteProblem
from ._submission import Submission

_FOLDER = "benchmarks/v3/problems"
_REFUSED = {
    "product or convolution of torch": r"(?:torch::|\btorch\.)\s*(?:mm|matmul|conv[123]d|linear)\s*\(",
    "product or convolution of torch.nn.functional": r"\bF\.(?:linear|conv[123]d)\s*\(",
    "torch.compile": r"\btorch\.compile\s*\(",
    "torch.jit.script": r"@torch\.jit\.script",
    "kernels of another library": r"from\s+(?:fla\.ops|flash_attn|xformers)\b",
}
_OWN = ("triton.jit", "load_inline", "__global__", "tl.load(", "tl.store(", "tl.dot(")


class OfModel(ModuleForm):
    """What adapters share of benchmarks whose kernels are files with `Model`; a `ModelNew` is taken for one."""

    def candidate(self, task: Task, file: Path) -> Path | Candidate:
        """Return the file, or the `Model` in it."""
        return (
            file if "ModelNew" in file.read_text(errors="replace") else load_candidate(f"{file}:Model", task)
        )

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a file whose `Model` calls the kernel."""
        made = super().submission(task, candidate)
        return made and Submission(f"{made.text}\n\nModel = ModelNew\n", made.kernel)


class KernelBenchV3(OfModel):
    """The adapter of KernelBench-v3."""

    name, program = "kernelbench-v3", "kernelbench_v3"
    title = "KernelBench-v3: modules of four levels, of tile kernels, graphics and Metal"
    repository = "Infatoshi/kernelbench.com"
    commit = "c7d92211851a18fdba173544f703436f4032b350"
    layout = (f"{_FOLDER}/level1", f"{_FOLDER}/level4", "benchmarks/v3/src/eval")
    rules = Rules(
        correctness="on draws of 5 public seeds no element further off than an absolute part plus a relative part of "
        "the greatest expected value (1e-3 each for float32, 1e-2 for halves), one tensor, finite; two calls agree bit "
        "for bit",
        timing="median of 30 calls on one draw after 5, against the faster of eager and torch.compile",
        score="share that is correct, and speedup by problem and GPU",
        trials=5, tolerance=1e-3, timed=30, seed=2026,
        here="the host's clock takes the place of CUDA events, eager is what is timed against, and a kernel without "
        "one of a GPU is not refused but flagged",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of all folders."""
        found = sorted((data / _FOLDER).glob("*/*.py"), key=lambda f: (f.parent.name, _number(f), f.stem))
        return tuple(SuiteProblem.of_file(self.name, data, f) for f in found)

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the file."""
        return copied(data, problem, folder)

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return what its guard refuses in a kernel's text."""
        found = tuple(name for name, pattern in _REFUSED.items() if re.search(pattern, candidate))
        return found if any(mark in candidate for mark in _OWN) else (*found, "no kernel for a GPU")


def _number(file: Path) -> int:
    head = file.stem.partition("_")[0]
    return int(head) if head.isdigit() else 0
