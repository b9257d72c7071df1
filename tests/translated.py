"""How kernels that are translated for execution are built in tests: as users' are, or in a third of the time.

Users' kernels of many lines are not optimised either. What is right does not depend on it; that optimised ones are
right too is tested with those that are kept as PTX, with random instructions, and by whatever judges in other folders.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

from kernelwright.executor import _native

OPTIMISED = _native._KERNEL_FLAGS
QUICK = ("-O0", *OPTIMISED[1:])
_KEY = _native.key


@contextlib.contextmanager
def built_by(flags: tuple[str, ...]) -> Iterator[None]:
    """Build translated kernels with these flags meanwhile, each set apart from those that users get."""

    def key(kind: bytes, *parts: bytes) -> str:
        level = () if flags == OPTIMISED or kind != b"kernel" else (flags[0].encode(),)
        return _KEY(kind, *parts, *level)

    with mock.patch.multiple(_native, _KERNEL_FLAGS=flags, key=key):
        yield
