"""Anthropic's Messages API: `anthropic:MODEL`, at Anthropic's own address or at `ANTHROPIC_BASE_URL`.

Covers: streaming, JSON schemas (omitted if the model does not accept them), prompt caching: messages marked stable
are cached by the provider and reused by later calls with the same prefix.
Does not cover: tools, images, the text of extended thinking.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any

from ..config import Settings
from ..errors import MissingToolError
from ._names import ModelName
from ._prices import Price, Usage, price_of
from ._protocol import Completion, Limits, Message, Schema, Stop
from ._stream import Streams
from ._wire import SchemaWish, Watch, hide, in_words, require_sdk, sdk

_URL = "https://api.anthropic.com"
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


def make_anthropic(name: ModelName, settings: Settings, price: Price | None) -> "Messages":
    """Make a provider for an Anthropic model."""
    known = price or price_of(str(name), "anthropic", name.model)
    key = settings.keys.get("anthropic")
    if not key:
        raise MissingToolError(f"model {str(name)!r} needs a key; set ANTHROPIC_API_KEY in the environment")
    url = name.base_url or settings.base_urls.get("anthropic", _URL)
    return Messages(name, known, key=key, base_url=url)


class Messages:
    """One model behind one address."""

    def __init__(
        self,
        name: ModelName,
        price: Price,
        *,
        key: str,
        base_url: str = _URL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_sdk("anthropic")
        self.name = str(name)
        self.price = price
        self._model = name.model
        self._key = key
        self._base_url = base_url
        self._clock = clock
        self._wish = SchemaWish()

    def complete(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        """Ask once, streaming."""
        return self._wish.ask(lambda wished: self._ask(messages, wished, limits), schema)

    @cached_property
    def _anthropic(self) -> ModuleType:
        return sdk("anthropic")

    @cached_property
    def _streams(self) -> Streams:
        client = self._anthropic.Anthropic(api_key=self._key, base_url=self._base_url, max_retries=0)
        return Streams(self._anthropic, client)

    def _ask(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        watch = Watch(self.name, limits, self._clock)
        asked: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": [_block(m)]} for m in messages if m.role != "system"],
            "max_tokens": limits.output_tokens,
            "stream": True,
        }
        if schema is not None:
            asked["output_config"] = {"format": {"type": "json_schema", "schema": dict(schema)}}
        if system := [_block(m) for m in messages if m.role == "system"]:
            asked["system"] = system
        read: dict[str, Any] = {}
        written: int | None = None
        stop = "max_tokens"  # an answer that ends early was cut off
        with in_words(self._anthropic, self.name, self._key, limits):
            with self._streams.ask("/v1/messages", asked, watch, limits) as events:
                for event in events:
                    kind, delta = event["type"], event.get("delta") or {}
                    if kind == "message_start":
                        read = event["message"]["usage"]
                    elif kind == "message_delta":
                        stop = delta.get("stop_reason") or stop
                        written = event["usage"]["output_tokens"]
                    watch.take(delta["text"] if delta.get("type") == "text_delta" else "")
                    if watch.full:
                        stop = "max_tokens"
                    if watch.full or kind == "message_stop":
                        break
            text = hide(watch.end(), self._key)
            spent = _usage(read, len(text.encode()) if written is None else written)
        return Completion(
            text=text, usage=spent, cost_usd=self.price.cost_usd(spent), stop=_STOPS.get(stop, "end")
        )


def _block(message: Message) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": message.text}
    return block | ({"cache_control": {"type": "ephemeral"}} if message.stable else {})


def _usage(read: Mapping[str, Any], written: int) -> Usage:
    cached, kept = read.get("cache_read_input_tokens") or 0, read.get("cache_creation_input_tokens") or 0
    return Usage(
        input_tokens=read["input_tokens"] + cached + kept,
        cached_tokens=cached,
        written_tokens=kept,
        output_tokens=written,
    )
