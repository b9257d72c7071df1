"""MSKernelBench: CUDA kernels of algebra, language models, sparse and scientific computing, each a `.cu` file.

Source: Hanyx2021/MSKernelBenchDemo, the part of CUDAMaster's benchmark that is public (arXiv 2603.07169).
"""

import re
from pathlib import Path

from ..errors import TaskError
from ._program_runs import Program, Trial
from ._programs import ProgramForm
from ._records import Rules, SuiteProblem

_ORIGIN, _KERNEL, _HARNESS = "origin", "kernel.cu", "test.cu"
_PLACE = re.compile(r"// =+ OPTIMIZED KERNEL START =+\n(.*?)// =+ OPTIMIZED KERNEL END =+\n", re.DOTALL)
_ORIGINAL = re.compile(
    r"// =+ OPTIMIZED KERNEL END =+\n(.*?)^(?=// Test case|typedef struct)", re.DOTALL | re.MULTILINE
)
"""What stands between a new kernel and the tests: the original kernel."""
_CONVERSION = re.compile(r"__nv_bfloat16|__bfloat162float|__float2bfloat16(?:_rn)?\b")
_HALF = "bf16"
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
        here="the repository has programs for bfloat16 alone: for float32 ours are those with the type replaced; the "
        "whole process is timed, not the launches; without a GPU a kernel is executed 4 times at a size instead of 53, "
        "and not timed",
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
        program, kernel = file.with_name(f"test_{file.name}"), ""
        if not program.is_file():
            program = data / _ORIGIN / _HALF / f"test_{file.stem}_{_HALF}.cu"
            kernel = renamed(file.read_text(), file.stem)
        if not program.is_file():
            raise TaskError(
                f"{problem.file} has no program that calls it, neither of its own nor of bfloat16"
            )
        text = retyped(program.read_text(), file.stem) if kernel else program.read_text()
        found = _PLACE.search(text)
        if found is None:
            raise TaskError(f"{program.name} has no place for a kernel")
        whole = f'{text[: found.start()]}#include "{_KERNEL}"\n{text[found.end() :]}'
        return Program(
            files={_HARNESS: whole}, original={_KERNEL: kernel or found[1]},
            build=f"{_COMPILER} -o program {_HARNESS}", command="program", tests=(Trial("", None),), limit_s=_LIMIT_S,
            needs_gpu=NEEDS_GPU, settings="PROFILING_MODE=1",
        )  # fmt: skip

    def same(self, output: str, expected: str) -> bool:
        """Say nothing: the exit code tells."""
        return output == expected


def retyped(program: str, name: str) -> str:
    """Return the program of a bfloat16 kernel as one of the float32 kernel with the same arguments.

    What it compares with is the original of bfloat16 on floats, in a namespace of its own, since helpers of both
    originals have the same names.

    Example:
        >>> print(retyped("__nv_bfloat16 x = __float2bfloat16(1); tanh_bf16_optimized(x);", "tanh"))
        float x = float(1); tanh_optimized(x);
    """
    text = _CONVERSION.sub("float", program).replace(f"{name}_{_HALF}_optimized", f"{name}_optimized")
    found = _ORIGINAL.search(text)
    if found is None:
        return text
    inside = f"namespace original {{\n{found[1]}}}\nusing namespace original;\n"
    return text[: found.start(1)] + inside + text[found.end(1) :]


def renamed(kernel: str, name: str) -> str:
    """Return an original kernel's file with its entry named as that of a new one.

    Example:
        >>> renamed('extern "C" void tanh(float* x) { tanh_kernel<<<1, 1>>>(x); }', "tanh")
        'extern "C" void tanh_optimized(float* x) { tanh_kernel<<<1, 1>>>(x); }'
    """
    return re.sub(rf'(extern "C" [\w ]*?[* ]){name}(?=\s*\()', rf"\1{name}_optimized", kernel)
