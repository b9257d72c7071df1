"""OpenAI's Chat Completions API, and every compatible server: vLLM, SGLang, Ollama, OpenRouter ...

`openai:MODEL` is OpenAI's own, or the server at `OPENAI_BASE_URL`; `openrouter:MODEL` is OpenRouter's;
`local:MODEL@URL` is the user's own server: it needs no key (one in `LOCAL_API_KEY` is sent) and costs nothing.

Covers: streaming, JSON schemas (omitted if the server does not accept them), cached tokens as reported.
Does not cover: the Responses API, tools, images.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from ..config import Settings
from ..errors import InputError, MissingToolError
from ._names import ModelName
from ._prices import FREE, Price, Usage, price_of
from ._protocol import Completion, Limits, Message, Schema, Stop
from ._stream import Streams
from ._wire import SchemaWish, Watch, hide, in_words, require_sdk, sdk

_OPENAI = "https://api.openai.com/v1"
_OPENROUTER = "https://openrouter.ai/api/v1"
_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refused"}
_PAID_HOSTS = ("api.openai.com", "api.anthropic.com", "openrouter.ai")


def make_openai(name: ModelName, settings: Settings, price: Price | None) -> "ChatCompletions":
    """Make a provider for an OpenAI model, or a paid server with the same format."""
    url = name.base_url or settings.base_urls.get("openai", "")
    if price is None and url and not url.startswith("https://api.openai.com"):
        raise InputError(
            f"what model {str(name)!r} costs at {url} is not known; give it with --price IN,OUT in USD a million "
            "tokens, or name it local:... where it is your own"
        )
    known = price or price_of(str(name), "openai", name.model)
    return ChatCompletions(name, known, key=_key(name, settings), base_url=url or None)


def make_openrouter(name: ModelName, settings: Settings, price: Price | None) -> "ChatCompletions":
    """Make a provider for an OpenRouter model."""
    known = price or price_of(str(name), "openrouter", name.model)
    return ChatCompletions(name, known, key=_key(name, settings), base_url=name.base_url or _OPENROUTER)


def make_local(name: ModelName, settings: Settings, price: Price | None) -> "ChatCompletions":
    """Make a provider for a model on the user's own server; it costs nothing unless a price is given."""
    url = name.base_url or settings.base_urls.get("local", "")
    if not url:
        raise InputError(
            f"model {str(name)!r} does not say where it is; expected local:MODEL@URL, such as "
            f"local:{name.model}@http://127.0.0.1:8000/v1, or LOCAL_BASE_URL"
        )
    host = urlsplit(url).hostname or ""
    if price is None and host.endswith(_PAID_HOSTS):
        raise InputError(f"model {str(name)!r} is at {host}, which is not local; name its provider instead")
    return ChatCompletions(name, price or FREE, key=settings.keys.get("local", ""), base_url=url)


def _key(name: ModelName, settings: Settings) -> str:
    key = settings.keys.get(name.provider)
    if not key:
        raise MissingToolError(
            f"model {str(name)!r} needs a key; set {name.provider.upper()}_API_KEY in the environment"
        )
    return key


class ChatCompletions:
    """One model behind one address."""

    def __init__(
        self,
        name: ModelName,
        price: Price,
        *,
        key: str,
        base_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_sdk("openai")
        self.name = str(name)
        self.price = price
        self._model = name.model
        self._key = key
        self._base_url = (base_url or _OPENAI).rstrip("/")
        self._clock = clock
        self._wish = SchemaWish()
        # OpenAI's newer models accept only the newer name; other servers know only the older one.
        self._most = "max_tokens" if base_url else "max_completion_tokens"

    def complete(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        """Ask once, streaming."""
        return self._wish.ask(lambda wished: self._ask(messages, wished, limits), schema)

    @cached_property
    def _openai(self) -> ModuleType:
        return sdk("openai")

    @cached_property
    def _streams(self) -> Streams:
        client = self._openai.OpenAI(api_key=self._key or "none", base_url=self._base_url, max_retries=0)
        return Streams(self._openai, client)

    def _ask(self, messages: Sequence[Message], schema: Schema | None, limits: Limits) -> Completion:
        watch = Watch(self.name, limits, self._clock)
        asked: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": m.role, "content": m.text} for m in messages],
            self._most: limits.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if schema is not None:
            asked["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(schema)},
            }
        usage, stop = None, ""
        with in_words(self._openai, self.name, self._key, limits):
            with self._streams.ask("/chat/completions", asked, watch, limits) as chunks:
                for chunk in chunks:
                    usage = chunk.get("usage") or usage
                    for choice in chunk.get("choices") or ():
                        watch.take((choice.get("delta") or {}).get("content") or "")
                        stop = choice.get("finish_reason") or stop
                    if watch.full:
                        stop = "length"
                    # The usage comes last, on its own: some servers neither end the stream nor close after it.
                    if watch.full or (stop and usage and not chunk.get("choices")):
                        break
            text = hide(watch.end(), self._key)
            spent = _usage(usage) if usage is not None else counted(messages, text)
        return Completion(
            text=text,
            usage=spent,
            cost_usd=self.price.cost_usd(spent),
            stop=_STOPS.get(stop or "length", "end"),  # an answer that ends early was cut off
        )


def _usage(reported: Mapping[str, Any]) -> Usage:
    details = reported.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=reported.get("prompt_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
        output_tokens=reported.get("completion_tokens") or 0,
    )


def counted(messages: Sequence[Message], text: str) -> Usage:
    """Count bytes if a server does not report tokens: there are never more tokens than bytes."""
    return Usage(input_tokens=sum(len(m.text.encode()) for m in messages), output_tokens=len(text.encode()))
