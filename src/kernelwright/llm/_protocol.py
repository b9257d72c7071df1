"""The provider interface: one method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from ..records import Record
from ._prices import Price, Usage

Schema = Mapping[str, JsonValue]
"""A JSON schema."""
Stop = Literal["end", "length", "refused"]
"""Why an answer ended: `length` if it was cut off, `refused` if the provider filtered it."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    """The speaker."""
    text: str
    """The message's text."""
    stable: bool = False
    """Whether many calls start with the same messages up to this one, so that caching them pays off."""


@dataclass(frozen=True)
class Limits:
    """Limits of one call."""

    output_tokens: int = 16_384
    """Most output tokens, including reasoning."""
    deadline_s: float = 600.0
    """Seconds for the whole call, including retries and waits for a rate limit."""
    cancelled: Callable[[], bool] = lambda: False
    """Polled to see whether to cancel the call: ten times a second while it waits, at every piece while it streams."""
    troubled: Callable[[str], None] = lambda _: None
    """Called with the reason when an attempt failed and another one will be made."""


class Completion(Record):
    """A model's answer and its cost."""

    text: str
    """The answer; may be empty."""
    usage: Usage
    """Tokens by kind."""
    cost_usd: float
    """Its cost."""
    stop: Stop = "end"
    """Why it ended."""


@runtime_checkable
class Provider(Protocol):
    """One model behind one wire format; called from several threads concurrently.

    An entry point in `kernelwright.providers` is a function `(ModelName, Settings, Price | None) -> Provider`;
    the price is the user's own, or None to look it up. A run calls it twice: in its own process, where only the
    name and the price are used and no SDK should be imported yet, and in the process that makes the calls.
    """

    name: str
    """The model's name as the user gave it."""
    price: Price
    """Its price."""

    def complete(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        """Ask once: no retry, no rate limit.

        Args:
            messages: The conversation; system messages first.
            schema: JSON schema of the answer; None for free text. A hint: the answer may not match it.
            limits: Limits of the call; the deadline applies to this attempt.

        Raises:
            CallFailed: there is no answer, with the kind of failure and whether it may have been billed.
        """
        ...
