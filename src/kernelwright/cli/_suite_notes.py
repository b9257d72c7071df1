"""What a user of a benchmark should know before it runs: another commit than was read, files that are no kernel."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..suites import Suite

_SHOWN = 3
_SHORT = 7


def note_commit(asked: "Suite", folder: Path) -> None:
    """Say if a checkout is at another commit than the adapter was read at."""
    from ..suites import commit_of

    here = commit_of(folder)
    if asked.commit and here and here != asked.commit:
        _say(
            f"this checkout of {asked.name} is at {here[:_SHORT]}; its adapter was read at {asked.commit[:_SHORT]}, "
            "and may take later changes wrongly"
        )


def note_others(asked: "Suite", kernels: Path, found: Mapping[str, Path]) -> None:
    """Name files of the kernels' kind that are judged for no problem."""
    from ..suites import InFolders

    taken = set(found.values())
    if isinstance(asked, InFolders):
        taken |= {file for kernel in found.values() for file in asked.files(kernel).values()}
    kinds = {file.suffix for file in found.values()}
    others = sorted(f for f in kernels.rglob("*") if f.suffix in kinds and f.is_file() and f not in taken)
    if others:
        some = ", ".join(f.relative_to(kernels).as_posix() for f in others[:_SHOWN])
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        _say(
            f"not judged: {some}{more}, named like no problem of {asked.name}, or like one that another file is judged "
            "for"
        )


def _say(text: str) -> None:
    print(f"note: {text}", file=sys.stderr, flush=True)
