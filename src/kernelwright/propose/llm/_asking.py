"""Asks a model and parses the answer; if it cannot be used, asks once more with the complaint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...errors import ModelError
from ...llm import Completion, Limits, Message, Model
from ...llm._protocol import Schema
from .._feedback import shortened
from ._replies import ReplyError

T = TypeVar("T")
_MOST_REPEATED = 20_000


@dataclass(frozen=True)
class Answered(Generic[T]):
    """The parsed answer and its cost."""

    value: T | None
    """The parsed answer. None if neither answer could be used."""
    usd: float
    """Its cost."""
    complaint: str = ""
    """What was wrong with the last answer; empty if it was used."""


def ask(
    model: Model,
    messages: Sequence[Message],
    read: Callable[[Completion], T],
    *,
    schema: Schema | None,
    limits: Limits,
    purpose: str,
) -> Answered[T]:
    """Ask, and ask once more if the answer cannot be used.

    Raises:
        ModelError: there was no first answer, or no money for one.
    """
    first = model.complete(messages, schema, limits, purpose=purpose)
    try:
        return Answered(read(first), first.cost_usd)
    except ReplyError as error:
        complaint = str(error)
    again = [
        *messages,
        Message("assistant", shortened(first.text, _MOST_REPEATED) or "(nothing)"),
        Message(
            "user", f"That answer cannot be used: {complaint}.\nAnswer again, in full, in the form asked for."
        ),
    ]
    usd = first.cost_usd
    try:
        second = model.complete(again, schema, limits, purpose=f"{purpose}, repaired")
        usd += second.cost_usd
        return Answered(read(second), usd)
    except (ReplyError, ModelError) as error:
        return Answered(None, usd, f"{complaint}; then: {error}")
