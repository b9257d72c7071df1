"""What a provider must do: one method."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from ..records import Record
from ._prices import Price, Usage

Schema = Mapping[str, JsonValue]
"""A JSON schema."""
Stop = Literal["end", "length", "refused"]
"""Why an answer ended: `length` where it was cut off, `refused` where the provider filtered it."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    """Whose turn."""
    text: str
    """What is said."""
    stable: bool = False
    """Whether many calls begin with the same messages up to this one, so that caching them pays."""


@dataclass(frozen=True)
class Limits:
    """How far one call may go."""

    output_tokens: int = 16_384
    """The most that the model may write, its reasoning included."""
    deadline_s: float = 600.0
    """Seconds for the whole call, retries and waiting for a rate limit included."""
    cancelled: Callable[[], bool] = lambda: False
    """Asked now and then whether to give the call up: ten times a second while it waits, at every piece while it
    streams."""
    troubled: Callable[[str], None] = lambda _: None
    """Told why an attempt gave no answer, where another one will be made."""


class Completion(Record):
    """What a model answered, and what it cost."""

    text: str
    """The answer; empty is possible."""
    usage: Usage
    """Tokens by kind."""
    cost_usd: float
    """What it cost."""
    stop: Stop = "end"
    """Why it ended."""


@runtime_checkable
class Provider(Protocol):
    """One model behind one wire format; called from several threads at once.

    An entry point in `kernelwright.providers` is a function `(ModelName, Settings, Price | None) -> Provider`;
    the price is the user's own, none where it is to be looked up. A run calls it twice: in its own process, where only
    the name and the price are used and no SDK should be imported yet, and in the process that the calls go out from.
    """

    name: str
    """The model's name as the user gave it."""
    price: Price
    """What it charges."""

    def complete(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        """Ask once: no retry, no rate limit.

        Args:
            messages: The conversation; system messages first.
            schema: What JSON the answer should be; none for free text. A wish: the answer may not keep to it.
            limits: How far it may go; the deadline is this attempt's.

        Raises:
            CallFailed: there is no answer, with the kind of failure and whether it may have been billed.
        """
        ...
