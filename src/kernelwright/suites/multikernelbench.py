"""MultiKernelBench: KernelBench's form in fifteen categories and NPUKernelBench's levels.

Source: Wen et al., MultiKernelBench: A Multi-Platform Benchmark for Kernel Generation, arXiv 2507.17773.
"""

from pathlib import Path

from ._modules import ModuleForm, copied
from ._records import Rules, SuiteProblem

_FOLDER = "reference"


class MultiKernelBench(ModuleForm):
    """The adapter of MultiKernelBench."""

    name = program = "multikernelbench"
    title = "MultiKernelBench: operators and models of fifteen categories for several platforms"
    repository = "wzzll123/MultiKernelBench"
    commit = "460a972c9be7ce18035984321d38b910e27df95f"
    layout = (f"{_FOLDER}/activation", f"{_FOLDER}/fuse", "backends")
    rules = Rules(
        correctness="allclose at 1e-4 on 5 draws after one public seed, or on a problem's own groups of inputs; "
        "booleans exactly; reference first, same process and tensors",
        timing="mean of 100 calls on one draw after 3 warm-up calls, model made anew",
        score="fast_p by category and platform",
        trials=5, tolerance=1e-4, timed=100, seed=1024,
        here="the host's clock takes the place of a device's events",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the files of all categories."""
        return tuple(
            SuiteProblem(
                suite=self.name, name=f"{f.parent.name}/{f.stem}", group=f.parent.name,
                file=f.relative_to(data).as_posix(),
            )
            for f in sorted((data / _FOLDER).glob("*/*.py"))
            if not f.name.startswith("_")
        )  # fmt: skip

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Copy the file, with the list of shapes beside it where there is one."""
        path = copied(data, problem, folder)
        shapes = (data / problem.file).with_suffix(".json")
        if shapes.is_file():
            (folder / shapes.name).write_text(shapes.read_text())
        return path

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: its detection of cheats asks for a backend's own build."""
        del candidate
        return ()
