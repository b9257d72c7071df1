"""Flags of commands that may ask language models."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ._common import Count, Positive

if TYPE_CHECKING:
    from ..flow import Options


@Parameter(name="*")
@dataclass(frozen=True)
class Asking:
    """Which language models a run may ask, and within which limits."""

    model: tuple[str, ...] = ()
    """Language model to ask: `openai:NAME`, `anthropic:NAME`, `openrouter:NAME`, `local:NAME@URL`; keys are read from
    OPENAI_API_KEY and the like. Repeat for more; the first is the default."""
    usd: Annotated[float | None, Parameter(validator=Number(gte=0))] = None
    """Most money that a run may spend on models, resumed or not; required if a model costs money."""
    price: tuple[str, ...] = ()
    """Price of a model that is not listed: `IN,OUT` in USD per million tokens, or `NAME=IN,OUT`."""
    requests_per_minute: Positive | None = None
    """Most requests to a model per minute."""
    tokens_per_minute: Positive | None = None
    """Most tokens to and from a model per minute."""
    output_tokens: Count | None = None
    """Most tokens of one answer, including reasoning; 16384 by default."""
    retries: Annotated[int | None, Parameter(validator=Number(gte=0))] = None
    """How often to retry if a server is busy or fails; 4 by default."""
    note: str = ""
    """A note for the models in addition to the task."""

    @property
    def options(self) -> "Options":
        """The options stored with the run; flags not given are left out."""
        given: Options = {
            "models": self.model,
            "prices": self.price,
            "requests_per_minute": self.requests_per_minute,
            "tokens_per_minute": self.tokens_per_minute,
            "output_tokens": self.output_tokens,
            "retries": self.retries,
            "note": self.note,
        }
        return {name: value for name, value in given.items() if value not in (None, (), "")}
