"""PTX text → tokens with their lines."""

import re
from dataclasses import dataclass

from ._errors import PtxError

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*|/\*.*?\*/)
  | (?P<place>\.(?:loc|file)\b[^\n;]*;?)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
              |\d+\.\d*(?:[eE][+-]?\d+)?|\d+U?)
  | (?P<directive>\.[A-Za-z_][\w$]*)
  | (?P<name>[A-Za-z_$%][\w$]*(?:\.\w[\w$]*|::\w+)*)
  | (?P<mark>[{}()\[\],;:@!|<>=+*/\-~&^?%])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word of PTX, its kind and line."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """Split PTX into tokens, without spaces and comments.

    Raises:
        PtxError: where something is no token of PTX.

    Example:
        >>> [t.text for t in tokens("add.s32 %r1, %r2, -1; // one less")]
        ['add.s32', '%r1', ',', '%r2', ',', '-', '1', ';']
    """
    found, line, at = [], 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at:].split("\n", 1)[0][:40]
            raise PtxError(f"line {line}: {rest!r} is no PTX")
        kind, word = match.lastgroup or "", match[0]
        if kind != "space":
            found.append(Token(kind, word, line))
        line += word.count("\n")
        at = match.end()
    return found
