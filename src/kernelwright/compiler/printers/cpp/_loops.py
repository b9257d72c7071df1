"""Queries of the statement printer about loops: extents, scans, work."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...tile import (
    Arith,
    Expression,
    Let,
    Literal,
    Load,
    Loop,
    Result,
    Statement,
    Store,
    Update,
    expressions,
    walk,
)


def is_scan(body: Sequence[Statement], folded: Collection[str]) -> bool:
    """Whether iterations wait for nothing but what they fold once, and read that only after they did."""
    stored = {s.buffer for s in body if isinstance(s, Store)}
    updated = set[str]()
    for s in body:
        read = [e for x in expressions(s) for e in walk(x)]
        early = any(
            isinstance(e, Result) and e.accumulator in folded and e.accumulator not in updated for e in read
        )
        again = any(isinstance(e, Load) and e.buffer in stored for e in read)
        match s:
            case Let() | Store(combine=""):
                pass
            case Update(name) if name in folded and name not in updated:
                updated.add(name)
            case _:
                return False
        if early or again:
            return False
    return True


def unparallel(s: Statement) -> Statement:
    if isinstance(s, Loop):
        return replace(s, parallel=False, body=tuple(map(unparallel, s.body)))
    return s


def shown_size(s: Loop) -> Expression:
    """Return a loop's extent if it is known outside of it; otherwise a block's size, or the expected size."""
    if s.expected_extent:
        return Literal(s.expected_extent, "int64")
    if isinstance(s.end, Arith) and s.end.sign == "min" and isinstance(s.end.left, Arith):
        return s.end.left.right
    return s.end


def factor(text: str) -> str:
    return (
        text
        if text.startswith("int64_t(") or text.isidentifier() or text.isdigit() or text.startswith("(")
        else f"({text})"
    )
