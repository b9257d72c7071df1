"""A candidate's entry: the file and the symbol that it names."""

from ..errors import InputError
from ..records import Candidate


def split_entry(entry: str) -> tuple[str, str]:
    """Split `path:symbol`.

    Raises:
        InputError: it does not have that form.

    Example:
        >>> split_entry("a/kernel.py:run")
        ('a/kernel.py', 'run')
    """
    path, _, symbol = entry.rpartition(":")
    if not path or not symbol:
        raise InputError(f"entry {entry!r} is not of the form 'path:symbol'")
    return path, symbol


def source_of(candidate: Candidate) -> tuple[str, str]:
    """Return the text of the entry's file, and its symbol.

    Raises:
        InputError: the entry is not `path:symbol`, or its file is not among the sources.
    """
    path, symbol = split_entry(candidate.entry)
    texts = {source.path: source.text for source in candidate.sources}
    if path not in texts:
        raise InputError(f"entry file {path!r} is not among the sources {sorted(texts)}")
    return texts[path], symbol
