"""Builds what every CUDA candidate needs on a machine without a GPU, before anybody has read the candidate.

It imports no torch, so that a compiler works while others import that.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from ..errors import MissingToolError
from . import _cudart, _native
from .cuda import nvcc

__all__ = ["building"]


@contextlib.contextmanager
def building() -> Iterator[None]:
    """Build the engine and CUDA's runtime in threads of their own, where this machine has not built them yet.

    Who needs them meanwhile waits for these. Nothing is built where there is no nvcc, and what does not build is said
    by whoever needs it.

    Example:
        >>> with building():
        ...     import torch
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(MissingToolError):
            tool = nvcc()
            pool = stack.enter_context(ThreadPoolExecutor(2))
            pool.submit(_native.engine_library)
            pool.submit(_cudart.built, tool)
        yield
