"""Prices of models: from a list, or set by the user."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol, runtime_checkable

from ..errors import InputError
from ..records import Record

_WRITTEN = 1.25
"""Highest known surcharge for tokens written to a provider's cache (Anthropic, "Prompt caching", pricing)."""


class Usage(Record):
    """Tokens of one call."""

    input_tokens: int = 0
    """All input tokens, from the cache or not."""
    cached_tokens: int = 0
    """Of those, read from the provider's cache."""
    written_tokens: int = 0
    """Of those, written to the provider's cache."""
    output_tokens: int = 0
    """All output tokens, including reasoning."""


@runtime_checkable
class Price(Protocol):
    """Converts tokens to money; monotonic in the tokens."""

    def cost_usd(self, usage: Usage) -> float:
        """Return what a call of that usage costs."""
        ...


@dataclass(frozen=True)
class FlatPrice:
    """The user's own price; cached tokens cost the same as others, so that it is never too low.

    Example:
        >>> FlatPrice(input_usd=3, output_usd=15).cost_usd(Usage(input_tokens=1000, output_tokens=100))
        0.0045
    """

    input_usd: float
    """USD per million input tokens."""
    output_usd: float
    """USD per million output tokens."""

    def cost_usd(self, usage: Usage) -> float:
        """Return what a call of that usage costs."""
        read = usage.input_tokens + (_WRITTEN - 1) * usage.written_tokens
        return (read * self.input_usd + usage.output_tokens * self.output_usd) / 1e6


FREE: Final = FlatPrice(0.0, 0.0)
"""Price of a local model."""


@dataclass(frozen=True)
class ListedPrice:
    """The price from the `genai-prices` list, including tiers and caching."""

    provider: str
    """The provider's name in the list."""
    model: str
    """The provider's name for the model."""

    def cost_usd(self, usage: Usage) -> float:
        """Return what a call of that usage costs."""
        import genai_prices

        tokens = genai_prices.Usage(
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.written_tokens,
            output_tokens=usage.output_tokens,
        )
        total: Decimal = genai_prices.calc_price(tokens, self.model, provider_id=self.provider).total_price
        return float(total)


def price_of(name: str, provider: str, model: str) -> Price:
    """Look up a model's price.

    Raises:
        InputError: the list does not have it.
    """
    try:
        import genai_prices  # noqa: F401

        price = ListedPrice(provider, model)
        price.cost_usd(Usage(input_tokens=1, output_tokens=1))
        return price
    except (ImportError, LookupError) as error:
        why = (
            "genai-prices is not installed" if isinstance(error, ImportError) else "no price is listed for it"
        )
        raise InputError(
            f"what model {name!r} costs is not known ({why}); give it with --price IN,OUT in USD a million tokens"
        ) from None


def upper_usage(text_bytes: int, output_tokens: int) -> Usage:
    """Return the most tokens that a call can use: a token represents at least one byte."""
    return Usage(input_tokens=text_bytes, written_tokens=text_bytes, output_tokens=output_tokens)
