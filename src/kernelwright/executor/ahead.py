"""Builds what a CUDA candidate needs on a machine without a GPU while others import torch, which this does not.

What is built lies in the build cache, where whoever needs it finds it, and waits for it as long as it is being built.

Covers: the engine, CUDA's runtime, the headers of kernels; extensions that a Python file builds by `load_inline`, and
their kernels.
Does not cover: candidates of other forms, which are built when they are asked for.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import KernelwrightError, MissingToolError
from . import _cudart, _native

__all__ = ["building"]

_DEADLINE_S = 120.0


@contextlib.contextmanager
def building(candidate: str = "") -> Iterator[None]:
    """Build in threads of its own what this machine has not built yet.

    Nothing is built where there is no nvcc, and what does not build is said by whoever needs it.

    Args:
        candidate: What is going to be judged; its extensions are built where it is a Python file.

    Example:
        >>> with building():
        ...     import torch
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(MissingToolError):
            tool = _cudart.nvcc()
            pool = stack.enter_context(ThreadPoolExecutor())
            pool.submit(_native.engine_library)
            pool.submit(_native.kernel_headers)
            pool.submit(_cudart.built, tool)
            if Path(candidate).suffix == ".py":
                pool.submit(_extensions, tool, Path(candidate), pool)
        yield


def _extensions(tool: str, path: Path, pool: ThreadPoolExecutor) -> None:
    """Build what a file hands to `load_inline`; the kernels of each while its host's half is compiled."""
    from ..languages._inline import calls_in
    from ._extension import FLAGS, extension

    def build(ptx: str) -> None:
        from .module import Module  # not before nvcc has begun

        Module.load(ptx, assembled=True).build()

    def translate(ptx: str) -> None:
        with contextlib.suppress(RuntimeError):  # all is over: nobody needs it any more
            pool.submit(build, ptx)

    with contextlib.suppress(KernelwrightError, OSError, SyntaxError, ValueError):
        for call in calls_in(path.read_text(), FLAGS):
            extension(tool, call, _DEADLINE_S, translate)
