"""Which candidates are the same but for comments and layout."""

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
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"  # between digits it parts them
    r"|(?P<comment>//(?:\\.|[^\\\n])*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""Texts in quotes and comments, whichever begins first: what looks like a comment in a text is none."""
_WRITTEN = {name: _PYTHON for name in ("triton", "torch", "pallas", "numpy")}
"""Languages that are not written as C is."""


def canonical_key(candidate: Candidate) -> str:
    """Return a key that candidates share which differ in comments, blank lines and trailing spaces at most.

    Preprocessor lines and indentation count.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> def kernel(text):
        ...     return Candidate(sources=(SourceFile(path="k.cpp", text=text),), language="cpp", entry="k.cpp:k")
        >>> plain, said, other = (kernel(t) for t in ("int a;", "int a;  // fast", "int b;"))
        >>> canonical_key(plain) == canonical_key(said), canonical_key(plain) == canonical_key(other)
        (True, False)
    """
    comments = _WRITTEN.get(candidate.language, _C)
    parts = [candidate.language, candidate.entry, candidate.style, *candidate.flags, "--"]
    for source in sorted(candidate.sources, key=lambda s: s.path):
        text = comments.sub(_without_comment, source.text)
        parts += [source.path, "\n".join(line.rstrip() for line in text.splitlines() if line.strip())]
    return content_key(*parts)


def _without_comment(found: re.Match[str]) -> str:
    return "" if found["comment"] else found[0]
