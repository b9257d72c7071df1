"""Builds what a CUDA candidate needs on a machine without a GPU, in a process of its own, while others import torch.

    python -m kernelwright.executor.ahead CANDIDATE

Threads of a process that imports torch would wait for it, which takes longer than the first compilers do. What is
built lies in the build cache, where whoever needs it finds it, and waits for it as long as it is being built.

Covers: the engine, CUDA's runtime, the headers of kernels; extensions that a Python file builds by `load_inline`, and
their kernels.
Does not cover: candidates of other forms, which are built when they are asked for.
"""

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import KernelwrightError, MissingToolError
from . import _cudart, _native

__all__ = ["build"]

_DEADLINE_S = 120.0


def build(candidate: str = "") -> None:
    """Build what this machine has not built yet, all of it at once.

    Nothing is built where there is no nvcc, and what does not build is said by whoever needs it.

    Args:
        candidate: What is going to be judged; its extensions are built where it is a Python file.
    """
    with contextlib.suppress(MissingToolError), ThreadPoolExecutor() as pool:
        tool = _cudart.nvcc()
        pool.submit(_native.engine_library)
        pool.submit(_native.kernel_headers)
        pool.submit(_cudart.built, tool)
        if Path(candidate).suffix == ".py":
            pool.submit(_extensions, tool, Path(candidate), pool)


def _extensions(tool: str, path: Path, pool: ThreadPoolExecutor) -> None:
    """Build what a file hands to `load_inline`; the kernels of each while its host's half is compiled."""
    from ..languages._inline import calls_in
    from ._extension import extension
    from .module import Module

    def translate(ptx: str) -> None:
        with contextlib.suppress(RuntimeError):  # all is over: nobody needs it any more
            pool.submit(lambda: Module.load(ptx, assembled=True).build())

    with contextlib.suppress(KernelwrightError, OSError, SyntaxError, ValueError):
        for call in calls_in(path.read_text()):
            extension(tool, call, _DEADLINE_S, translate)


if __name__ == "__main__":
    build(*sys.argv[1:])
