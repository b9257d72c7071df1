"""KernelBench, levels 1 to 4: a file with `Model`, `get_inputs` and `get_init_inputs`; a kernel is a `ModelNew`.

Source: Ouyang et al., KernelBench: Can LLMs Write Efficient GPU Kernels?, arXiv 2502.10517.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from ._kernelbench_static import flagged
from ._modules import ModuleForm, copied
from ._offline import offline
from ._records import Rules, SuiteProblem

_GENERATED = re.compile(r"level_(\d+)_problem_(\d+)_sample_\d+(?:_kernel)?\.py")
_FOLDER = "KernelBench"


class KernelBench(ModuleForm):
    """The adapter of KernelBench."""

    name = program = "kernelbench"
    on_gpu = True
    title = "KernelBench: PyTorch modules of four levels, from single operators to whole models"
    repository = "ScalingIntelligence/KernelBench"
    commit = "423217d9fda91e0c2d67e4a43bf62f96f6d104f1"
    layout = (f"{_FOLDER}/level1", f"{_FOLDER}/level2", f"{_FOLDER}/level3")
    rules = Rules(
        correctness="allclose at 1e-4 (float32) on 5 draws under public seeds, reference first, same process and "
        "tensors; state by the order of random draws",
        timing="mean of 100 calls on one draw after 3 warm-up calls; a gain above 10 is flagged",
        score="fast_p: the fraction of problems that are correct and more than p times as fast",
        trials=5, tolerance=1e-4, timed=100, seed=42,
        here="on a CPU its own host clock takes the place of CUDA events, and no L2 cache is flushed",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of all levels, by level and number."""
        found = sorted((data / _FOLDER).glob("level[1-4]/*.py"), key=lambda f: (f.parent.name, _number(f)))
        return tuple(SuiteProblem.of_file(self.name, data, f) for f in found)

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the file; a configuration that it reads from the network gives way to a small one of its kind."""
        path = copied(data, problem, folder)
        path.write_text(offline(path.read_text()))
        return path

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find `level_1_problem_23_sample_0_kernel.py`, or files named like their problems."""
        by_number = {(p.group, _number(Path(p.file))): p.name for p in problems}
        found = super().candidates(folder, problems)
        for file in sorted(folder.rglob("level_*_problem_*.py"), reverse=True):
            match = _GENERATED.fullmatch(file.name)
            name = by_number.get((f"level{match[1]}", int(match[2]))) if match else None
            if name:
                found[name] = file
        return found

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return what its static checker refuses in a kernel's text."""
        return flagged(candidate)


def _number(file: Path) -> int:
    head = file.stem.partition("_")[0]
    return int(head) if head.isdigit() else 0
