"""How kernels that are translated for execution are built in tests: as users' are, or in a third of the time.

Users' kernels of many lines are not optimised either. What is right does not depend on it; that optimised ones are
right too is tested with those that are kept as PTX, with random instructions, and by whatever judges in other folders.
"""

import contextlib
from collections.abc import Iterator
from unittest import mock

from kernelwright.executor import _loading, _native, candidates

OPTIMISED = _native._KERNEL_FLAGS
QUICK = ("-O0", *OPTIMISED[1:])
_KEY, _VERSION = _native.key, _loading.version


@contextlib.contextmanager
def built_by(flags: tuple[str, ...]) -> Iterator[None]:
    """Build translated kernels with these flags meanwhile; they, and builds that hold them, are not those of users."""
    level = () if flags == OPTIMISED else (flags[0],)

    def key(kind: bytes, *parts: bytes) -> str:
        return _KEY(kind, *parts, *(map(str.encode, level) if kind == b"kernel" else ()))

    def version() -> str:
        return " ".join((_VERSION(), *level))

    with (
        mock.patch.multiple(_native, _KERNEL_FLAGS=flags, key=key),
        mock.patch.object(_loading, "version", version), mock.patch.object(candidates, "version", version),
    ):  # fmt: skip
        yield
