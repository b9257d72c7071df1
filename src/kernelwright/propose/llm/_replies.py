"""A model's answer → files, edits and a space, in whatever format it is wrapped.

Accepts fences of any length, with or without a language or a path, paths in headings, surrounding prose, thinking
in tags, edits inside or outside fences. An unusable answer raises a `ReplyError` whose message says what to change.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

_MOST_CHARACTERS = 400_000
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)$")
_PATH = re.compile(r"[\w./-]+\.(?:py|cpp|cc|cxx|cu|cl|wgsl|h|hpp|cuh)\b")
_EDIT = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(?P<old>.*?)^={5,9}[ \t]*\n(?P<new>.*?)^>{5,9} ?REPLACE[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_OPEN_EDIT = re.compile(r"^<{5,9} ?SEARCH", re.MULTILINE)
_FLAGS = re.compile(r"^\W*FLAGS\W*:[\s*`]*(?P<flags>-[^`\n]*)", re.MULTILINE)
_IDEA = re.compile(r"^\W*IDEA\W*:[\s*]*(?P<idea>\S[^\n]*)", re.MULTILINE)
_CODE = re.compile(
    r"^\s*(#include|#pragma|// launch:|@compute|import \w|from \w+ import|__kernel)", re.MULTILINE
)
LANGUAGES = {
    "cpp": "cpp", "c++": "cpp", "cc": "cpp", "c": "cpp", "cxx": "cpp", "hpp": "cpp", "cuda": "cuda", "cu": "cuda",
    "opencl": "opencl", "cl": "opencl", "wgsl": "wgsl", "python": "python", "py": "python", "triton": "python",
    "torch": "python", "pytorch": "python",
}  # fmt: skip
"""Language names in fences."""


class ReplyError(ValueError):
    """An answer that cannot be used; the message is sent to the model."""


@dataclass(frozen=True)
class Edit:
    """Replace one passage of a file with another."""

    old: str
    new: str


@dataclass(frozen=True)
class Block:
    """One block of code."""

    text: str
    language: str = ""
    """`cpp`, `cuda`, `opencl`, `python` or another language named by the fence."""
    path: str = ""
    """Its file, if given."""


@dataclass(frozen=True)
class Draft:
    """The parsed content of an answer."""

    blocks: tuple[Block, ...] = ()
    edits: tuple[Edit, ...] = ()
    space: dict[str, JsonValue] = field(default_factory=dict)
    """`parameters`, `constraints` and `first` of a template; empty if it is not one."""
    flags: tuple[str, ...] | None = None
    """Compiler flags, if given."""
    idea: str = ""
    """One line on what it tries."""


def read_code(text: str, *, cut_off: bool = False) -> Draft:
    """Parse an answer that should contain code.

    Args:
        text: The answer.
        cut_off: Whether the provider reports that it was truncated.

    Raises:
        ReplyError: it contains none, or only a part.
    """
    text = _cleaned(text)
    blocks, space, open_fence = [], {}, False
    for block, closed in _blocks(text):
        if "SEARCH" in block.text and _EDIT.search(block.text + "\n"):
            continue
        found = _space(block)
        if found:
            space = found
        elif block.text.strip():
            blocks.append(block)
            open_fence = not closed
    edits = tuple(Edit(m["old"], m["new"]) for m in _EDIT.finditer(text))
    if open_fence or (cut_off and (not blocks or len(_OPEN_EDIT.findall(text)) != len(edits))):
        raise ReplyError("the answer was cut off before its end; answer again, shorter, with the code first")
    if not blocks and not edits:
        if not _CODE.search(text):
            raise ReplyError(
                "the answer holds no code; expected one fenced block with the whole file, or SEARCH/REPLACE edits"
            )
        blocks = [Block(text)]
    flags, idea = _FLAGS.search(text), _IDEA.search(text)
    return Draft(
        tuple(blocks),
        edits,
        space,
        tuple(flags["flags"].split()) if flags else None,
        idea["idea"].strip()[:200] if idea else "",
    )


def json_in(text: str) -> JsonValue:
    """Find the JSON object in an answer: bare, fenced, or surrounded by prose.

    Raises:
        ReplyError: there is none.

    Example:
        >>> json_in('Sure! {"rating": 0.5} as asked')
        {'rating': 0.5}
    """
    text = _cleaned(text)
    decoder = json.JSONDecoder()
    for start in (m.start() for m in re.finditer(r"\{", text)):
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            continue
        if isinstance(value, dict) and value:
            found: JsonValue = value
            return found
    raise ReplyError("the answer holds no JSON object; answer with the JSON object alone")


def apply_edits(text: str, edits: tuple[Edit, ...]) -> str:
    """Apply edits in order; each passage must occur exactly once, ignoring trailing whitespace.

    Raises:
        ReplyError: a passage does not occur, or occurs more than once.

    Example:
        >>> apply_edits("a = 1\\nb = 2\\n", (Edit("b = 2\\n", "b = 3\\n"),))
        'a = 1\\nb = 3\\n'
    """
    for edit in edits:
        if not edit.old.strip():
            raise ReplyError("a SEARCH passage is empty; quote the lines to replace")
        places = _places(text, edit.old)
        if len(places) != 1:
            count = "is not in the file" if not places else f"is in the file {len(places)} times"
            raise ReplyError(
                f"the SEARCH passage beginning {edit.old.strip().splitlines()[0]!r} {count}; quote lines of the "
                "file as they are, enough of them to be found once"
            )
        begin, end = places[0]
        text = text[:begin] + edit.new + text[end:]
    return text


def _cleaned(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        raise ReplyError(f"the answer has {len(text)} characters; answer again, much shorter")
    text = _THINKING.sub("", text.replace("\r\n", "\n")).strip()
    if not text:
        raise ReplyError("the answer is empty")
    return text


def _blocks(text: str) -> Iterator[tuple[Block, bool]]:
    """Yield fenced blocks and whether each was closed."""
    opened: re.Match[str] | None = None
    lines: list[str] = []
    before = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, lines = fence, []
            elif line.strip():
                before = line
        elif fence and fence["ticks"].startswith(opened["ticks"]) and not fence["info"].strip():
            yield _block(opened["info"], before, lines), True
            opened, before = None, ""
        else:
            lines.append(line)
    if opened is not None:
        yield _block(opened["info"], before, lines), False


def _block(info: str, before: str, lines: list[str]) -> Block:
    word = re.split(r"[\s:{,]", info.strip(), maxsplit=1)[0].lower()
    heading = len(before) < 120 and before.lstrip().startswith(("#", "*", "`", "File", "file", "FILE"))
    path = _PATH.search(info) or (_PATH.search(before) if heading else None)
    suffix = path[0].rpartition(".")[2] if path else ""
    language = LANGUAGES.get(word, LANGUAGES.get(suffix, word))
    return Block("\n".join(lines) + "\n", language, path[0].rpartition("/")[2] if path else "")


def _space(block: Block) -> dict[str, JsonValue]:
    if block.language not in {"space", "json", ""} or '"parameters"' not in block.text:
        return {}
    try:
        value = json.loads(block.text)
    except ValueError as error:
        raise ReplyError(f"the space is no JSON: {error}") from None
    return value if isinstance(value, dict) and isinstance(value.get("parameters"), dict) else {}


def _places(text: str, old: str) -> list[tuple[int, int]]:
    """Find a passage verbatim, else line by line, ignoring trailing whitespace."""
    exact = [(m.start(), m.end()) for m in re.finditer(re.escape(old), text)]
    if exact:
        return exact
    wanted = [line.rstrip() for line in old.strip("\n").split("\n")]
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
    return [
        (starts[i], starts[i + len(wanted)])
        for i in range(len(lines) - len(wanted) + 1)
        if [line.rstrip() for line in lines[i : i + len(wanted)]] == wanted
    ]
