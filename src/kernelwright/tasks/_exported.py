"""A folder that `export` wrote, or a part of it → the candidate inside."""

import json
from pathlib import Path
from typing import Any

from ..errors import TaskError
from ..records import Candidate, SourceFile

_TABLE, _FOLDER = "specialisations.json", "specialisations"


def exported(folder: Path) -> Candidate | None:
    """Return the kernel of an exported package, of its inner folder, or of one folder under `specialisations`.

    None where the folder is none of these.

    Raises:
        TaskError: there are several kernels, or the package is not whole.
    """
    home = _home(folder)
    if home is None:
        return None
    try:
        rows: dict[str, dict[str, Any]] = {r["name"]: r for r in json.loads((home / _TABLE).read_text())}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TaskError(f"{home / _TABLE} cannot be read ({error}); export the kernel again") from None
    names = [folder.name] if folder.parent == home / _FOLDER else list(rows)
    if len(names) != 1 or names[0] not in rows:
        folders = ", ".join(str(home / _FOLDER / name) for name in rows) or "none"
        raise TaskError(f"{folder} should hold one kernel; name the folder of one: {folders}")
    return _candidate(home / _FOLDER / names[0], rows[names[0]])


def _home(folder: Path) -> Path | None:
    """Return the folder that holds the table of kernels."""
    places = [folder, folder.parent.parent] if folder.parent.name == _FOLDER else [folder]
    found = [place for place in places if (place / _TABLE).is_file()]
    if not found and (folder / "claim.json").is_file():
        found = [table.parent for table in sorted(folder.glob(f"*/{_TABLE}"))]
    return found[0] if found else None


def _candidate(folder: Path, row: dict[str, Any]) -> Candidate:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    try:
        sources = tuple(SourceFile(path=str(p.relative_to(folder)), text=p.read_text()) for p in files)
        made = Candidate(
            sources=sources, language=row["language"], entry=row["entry"], style=row["style"],
            flags=tuple(row.get("own_flags", ())), parameters=row["parameters"], proposer="export",
            reason=f"exported as {row['name']}",
        )  # fmt: skip
    except (KeyError, UnicodeDecodeError, ValueError) as error:
        raise TaskError(f"{folder} holds no kernel that can be judged ({error}); export it again") from None
    lent = made.model_copy(update={"sources": tuple(s for s in sources if s.path != "kernelwright.h")})
    return lent if row["name"].endswith(lent.key) else made
