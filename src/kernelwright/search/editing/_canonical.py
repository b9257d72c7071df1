"""Candidate → key that ignores comments and layout, to detect duplicates."""

import re

from ...records import Candidate, content_key

_PYTHON = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<comment>\#[^\n]*)",
    re.DOTALL,
)
_C = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"  # between digits it is a digit separator
    r"|(?P<comment>//(?:\\.|[^\\\n])*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""String literals and comments, whichever starts first: what looks like a comment inside a string is not one."""


def canonical_key(candidate: Candidate) -> str:
    """Return a key shared by candidates that differ only in comments, blank lines and trailing spaces.

    Preprocessor lines and indentation are significant.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> def kernel(text):
        ...     return Candidate(sources=(SourceFile(path="k.cpp", text=text),), language="cpp", entry="k.cpp:k")
        >>> plain, said, other = (kernel(t) for t in ("int a;", "int a;  // fast", "int b;"))
        >>> canonical_key(plain) == canonical_key(said), canonical_key(plain) == canonical_key(other)
        (True, False)
    """
    parts = [candidate.language, candidate.entry, candidate.style, *candidate.flags, "--"]
    for source in sorted(candidate.sources, key=lambda s: s.path):
        comments = _PYTHON if source.path.endswith(".py") else _C
        text = comments.sub(_without_comment, source.text)
        parts += [source.path, "\n".join(line.rstrip() for line in text.splitlines() if line.strip())]
    return content_key(*parts)


def _without_comment(found: re.Match[str]) -> str:
    return "" if found["comment"] else found[0]
