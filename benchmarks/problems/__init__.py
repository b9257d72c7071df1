"""Problems of the kinds that KernelBench has, written for this project: a folder a level, a file a problem.

Level 1 is one operation, level 2 a contraction and what follows it, level 3 a small network or a block of one.
Sizes are module constants, so `--max-elements` shrinks them; as declared most of them leave the cache.
"""

from collections.abc import Iterator
from pathlib import Path

OWN = Path(__file__).parent


def problems(folder: Path = OWN, level: int | None = None) -> Iterator[tuple[int, Path]]:
    """Yield level and file of every problem under `level1`, `level2` ... of a folder, or of one level.

    Raises:
        FileNotFoundError: the folder holds no such level.
    """
    found = sorted(folder.glob(f"level{level or '[0-9]'}/*.py"), key=_order)
    if not found:
        raise FileNotFoundError(
            f"{str(folder)!r} holds no problems; expected files such as level{level or 1}/1_name.py"
        )
    for path in found:
        yield int(path.parent.name.removeprefix("level")), path


def _order(path: Path) -> tuple[str, int, str]:
    """Sort by level and then by the number that a file starts with, where it has one."""
    number = path.stem.split("_")[0]
    return path.parent.name, int(number) if number.isdigit() else 0, path.stem
