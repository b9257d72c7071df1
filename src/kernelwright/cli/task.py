"""`kernelwright task`: a task from words."""

from pathlib import Path

from ..errors import InputError
from ._asking import Asking
from ._common import Common, print_json


def task(words: str, *, to: Path, asking: Asking | None = None, common: Common | None = None) -> int:
    """Let a language model write down as a task what is said in words.

    The file is written and not run: read it, because every kernel is held against it.

    Args:
        words: What is to be computed, on which sizes and dtypes; or the path of a text file (`.md`, `.txt`) that says
            so.
        to: The file to write; it must not be there.
        asking: Which language model, and how far that may go.
        common: Flags of every command.
    """
    from ..wording import write_task

    asking, common = asking or Asking(), common or Common()
    if to.exists():
        raise InputError(f"{to} is there already; name another file with --to")
    said = Path(words).read_text(encoding="utf-8") if words.endswith((".md", ".txt")) else words
    written = write_task(said, options=asking.options, usd=asking.usd, store=common.folder)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(written.text, encoding="utf-8")
    target = f"{to}:{written.name}"
    if common.json:
        print_json("result", target=target, file=str(to), run=written.run, usd=written.usd)
        return 0
    print(f"{written.text}\n{target} is written. Read it: every kernel is held against it. Then:")
    print(f"  kernelwright admit {target}{common.again}\n  kernelwright optimize {target}{common.again}")
    return 0
