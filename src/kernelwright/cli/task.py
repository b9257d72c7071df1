"""`kernelwright task`: writes a task file from a description in words."""

from pathlib import Path

from ..errors import InputError
from ._asking import Asking
from ._common import Common, print_json, program


def task(words: str, *, to: Path, asking: Asking | None = None, common: Common | None = None) -> int:
    """Let a language model write a task from a description in words.

    The file is written but not run: read it, because every kernel is checked against it.

    Args:
        words: What to compute, on which sizes and dtypes; or the path of a text file (`.md`, `.txt`) with the
            description.
        to: The file to write; it must not exist.
        asking: Which language model, and within which limits.
        common: Flags of every command.
    """
    from ..api.write_task import write_task

    asking, common = asking or Asking(), common or Common()
    said = _description(words)
    _claim(to)
    try:
        written = write_task(said, options=asking.options, usd=asking.usd, store=common.folder)
        to.write_text(written.text, encoding="utf-8")
    finally:
        if not to.stat().st_size:
            to.unlink()
    target = f"{to}:{written.name}"
    if common.json:
        print_json("result", target=target, file=str(to), run=written.run, usd=written.usd)
        return 0
    print(f"{written.text}\n{target} is written. Read it: every kernel is held against it. Then:")
    print(f"  {program()} admit {target}{common.again}\n  {program()} optimize {target}{common.again}")
    return 0


def _description(words: str) -> str:
    """Return the words, or the content of the file that they name."""
    if not words.endswith((".md", ".txt")):
        return words
    try:
        return Path(words).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{words} cannot be read ({error}); name a text file, or say the words") from None


def _claim(to: Path) -> None:
    """Create the empty file first, so that no model is paid for a result that cannot be written."""
    if to.exists():
        raise InputError(f"{to} is there already; name another file with --to")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        to.touch(exist_ok=False)
    except OSError as error:
        raise InputError(f"{to} cannot be written ({error.strerror}); name another file with --to") from None
