"""Calls alike → straight to the kernel: `served.cpp`, which explains what is compared."""

import functools
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ...languages._extension import load_extension


class Served(Protocol):
    """The calls of an op or a function that were served."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel and return its outputs, if a call alike is remembered; None otherwise."""

    def remember(
        self, kernel: int, args: tuple[Any, ...], kwargs: dict[str, Any], given: tuple[Any, ...], outputs: Any,
        result: Any, number: int,
    ) -> bool:  # fmt: skip
        """Remember a call, what its kernel was given and wrote, and what it returned; False if it cannot be.

        `number` is what was chosen for it; -1 if nothing was.
        """


@functools.cache
def served_calls() -> Callable[[bool], Served] | None:
    """Return the compiled class, built once for each torch: of whether what is called has gradients.

    None where it cannot be built, and without a global interpreter lock, which guards what it remembers: then Python
    checks every call.
    """
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    import tvm_ffi  # noqa: F401  the module calls its library

    module = load_extension(Path(__file__).with_name("served.cpp"))
    made: Callable[[bool], Served] | None = getattr(module, "Served", None)
    return made
