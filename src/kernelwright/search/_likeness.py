"""Which candidates are the same but for comments and layout."""

from functools import cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

from ..records import Candidate, content_key

_PYTHON = frozenset({"triton", "torch", "pallas", "numpy"})


def likeness(candidate: Candidate) -> str:
    """Return a key that candidates share which differ in comments, blank lines and trailing spaces at most.

    Preprocessor lines and indentation count.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> def kernel(text):
        ...     return Candidate(sources=(SourceFile(path="k.cpp", text=text),), language="cpp", entry="k.cpp:k")
        >>> plain, said, other = (kernel(t) for t in ("int a;", "int a;  // fast", "int b;"))
        >>> likeness(plain) == likeness(said), likeness(plain) == likeness(other)
        (True, False)
    """
    lexer = _lexer("python" if candidate.language in _PYTHON else "cpp")
    parts = [candidate.language, candidate.entry, candidate.style, *candidate.flags, "--"]
    for source in sorted(candidate.sources, key=lambda s: s.path):
        words = (word for kind, word in lexer.get_tokens(source.text) if not _is_comment(kind))
        text = "".join(words)
        parts += [source.path, "\n".join(line.rstrip() for line in text.splitlines() if line.strip())]
    return content_key(*parts)


@cache
def _lexer(name: str) -> Lexer:
    lexer: Lexer = get_lexer_by_name(name, stripnl=False)
    return lexer


def _is_comment(kind: tuple[str, ...]) -> bool:
    """Tell whether a token is a comment; pygments files preprocessor lines under comments too."""
    return kind[:1] == ("Comment",) and not any(name.startswith("Preproc") for name in kind)
