"""MSKernelBench: CUDA kernels of algebra, language models, sparse and scientific computing, each a `.cu` file.

Source: Hanyx2021/MSKernelBenchDemo, the part of CUDAMaster's benchmark that is public (arXiv 2603.07169).
"""

import re
from pathlib import Path

from ..errors import TaskError
from ._programs import Program, ProgramForm, Trial
from ._records import Rules, SuiteProblem

_ORIGIN, _KERNEL, _HARNESS = "origin", "kernel.cu", "test.cu"
_PLACE = re.compile(r"// =+ OPTIMIZED KERNEL START =+\n(.*?)// =+ OPTIMIZED KERNEL END =+\n", re.DOTALL)
_COMPILER, _LIMIT_S = "nvcc -O3 -std=c++17", 300.0
NEEDS_GPU = True
"""Whether its programs can only run on a GPU."""


class MSKernelBench(ProgramForm):
    """The adapter of MSKernelBench."""

    name, suffix = "mskernelbench", ".cu"
    title = "MSKernelBench: CUDA kernels of algebra, language models, sparse and scientific computing"
    repository = "Hanyx2021/MSKernelBenchDemo"
    commit = "633ec0ec6a1748a4b3ce989db915c9f864ac9f59"
    layout = (f"{_ORIGIN}/fp32", f"{_ORIGIN}/bf16")
    rules = Rules(
        correctness="a program runs the original kernel and the new one on the same draws, which differ each time, at "
        "several sizes, and ends with exit code 0 if every element is within 0.01",
        timing="events around 50 launches of each, original first, after 3",
        score="the original kernel's time over the new one's, by size",
        trials=1, tolerance=1e-2, timed=50, seed=0,
        here="the programs are those of bfloat16, since the repository has none for float32; the whole process is "
        "timed, not the launches; without a GPU a program is built and not run",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the original kernels, by type."""
        return tuple(
            SuiteProblem.of_file(self.name, data, f)
            for f in sorted((data / _ORIGIN).glob("*/*.cu"))
            if not f.name.startswith("test_")
        )

    def program(self, data: Path, problem: SuiteProblem) -> Program:
        """Return the program around a kernel, and the original kernel in the new one's place.

        Raises:
            TaskError: there is no program, or it has no place for a kernel.
        """
        file = data / problem.file
        program = file.with_name(f"test_{file.name}")
        if not program.is_file():
            raise TaskError(f"{problem.file} has no program next to it that calls it")
        text = program.read_text()
        found = _PLACE.search(text)
        if found is None:
            raise TaskError(f"{program.name} has no place for a kernel")
        whole = f'{text[: found.start()]}#include "{_KERNEL}"\n{text[found.end() :]}'
        return Program(
            files={_HARNESS: whole}, original={_KERNEL: found[1]}, build=f"{_COMPILER} -o program {_HARNESS}",
            command="program", tests=(Trial("", None),), limit_s=_LIMIT_S, needs_gpu=NEEDS_GPU,
        )  # fmt: skip

    def same(self, output: str, expected: str) -> bool:
        """Say nothing: the exit code tells."""
        return output == expected
