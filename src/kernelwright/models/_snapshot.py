"""Patched call → one compiled check of all that Python checked: `snapshot.cpp`, which explains what it compares."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..languages._extension import load_extension

Snapshots = Callable[..., Callable[..., Any] | None]
"""Makes a snapshot of a call that was served; None where a tensor cannot be followed."""


@functools.cache
def snapshots() -> Snapshots | None:
    """Return the compiled class, built once for each torch; None where it cannot be: then Python checks every call."""
    module = load_extension(Path(__file__).with_name("snapshot.cpp"))
    made: Snapshots | None = getattr(module, "Snapshot", None)
    return made


def never(*_: Any, **__: Any) -> None:
    """Stand for a snapshot where there is none: no call is as it was."""
