"""Calls alike → straight to the kernel: `served.cpp`, which explains what is compared."""

import functools
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ...languages._extension import load_extension


class Served(Protocol):
    """The calls of an op that were served."""

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel and return its outputs, if a call alike is remembered; None otherwise."""

    def remember(self, arguments: tuple[Any, ...], outputs: Any) -> None:
        """Remember a call that the kernel served."""


@functools.cache
def served_calls() -> Callable[[int, bool], Served] | None:
    """Return the compiled class, built once for each torch: of a kernel's address, and whether the op has gradients.

    None where it cannot be built, and without a global interpreter lock, which guards what it remembers: then Python
    checks every call.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    import tvm_ffi  # noqa: F401  the module calls its library

    module = load_extension(Path(__file__).with_name("served.cpp"))
    made: Callable[[int, bool], Served] | None = getattr(module, "Served", None)
    return made
