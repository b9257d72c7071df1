"""A provider wrapped with the ledger, rate limits, retries and the deadline."""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..records import content_key
from ._failure import CallFailed, FailureKind
from ._ledger import Ledger
from ._prices import upper_usage
from ._protocol import Completion, Limits, Message, Provider, Schema
from ._rate import Rate

Sleep = Callable[[float], object]
"""Sleeps for a number of seconds."""

_NAP_S = 0.1
_MESSAGE_BYTES = 64
"""Most tokens that a provider adds to one message."""


@dataclass(frozen=True)
class Retry:
    """When to retry, and how long to wait before."""

    attempts: int = 5
    """Total attempts."""
    first_s: float = 1.0
    """Most seconds before the second attempt; doubled each time."""
    most_s: float = 60.0
    """Most seconds before any attempt, unless the server asks for a wait."""

    def wait_s(self, attempt: int, failure: CallFailed, draw: float) -> float:
        """Return the seconds to wait after an attempt (from 0); `draw` in [0, 1) spreads callers out.

        Source: "Exponential Backoff And Jitter", AWS Architecture Blog, section "Full Jitter"; at least half of it
        here, so that a server that is down does not get five requests at once.
        """
        if failure.retry_after_s is not None:
            return failure.retry_after_s
        return min(self.most_s, self.first_s * 2.0**attempt) * (0.5 + 0.5 * draw)


class Model:
    """Asks one model, charged to a run; thread-safe."""

    def __init__(
        self,
        provider: Provider,
        ledger: Ledger,
        *,
        retry: Retry = Retry(),
        rate: Rate | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.name = provider.name
        """The model's name as the user gave it."""
        self._provider = provider
        self._ledger = ledger
        self._retry = retry
        self._rate = rate or Rate()
        self._clock, self._sleep, self._draw = clock, sleep, draw

    def complete(
        self,
        messages: Sequence[Message],
        schema: Schema | None = None,
        limits: Limits | None = None,
        *,
        purpose: str,
    ) -> Completion:
        """Ask, with retries; the same question for the same purpose is paid for only once in a run.

        Raises:
            SpentError: the run's budget does not allow it.
            CallFailed: no attempt got an answer.
        """
        limits = limits or Limits()
        request = json.dumps([vars(m) for m in messages])
        key = content_key(self.name, purpose, request, json.dumps(schema), str(limits.output_tokens))
        kept = self._ledger.kept(key)
        if kept is not None:
            return kept
        size = sum(len(m.text.encode()) + _MESSAGE_BYTES for m in messages)
        upper = upper_usage(size + (len(json.dumps(schema)) if schema else 0), limits.output_tokens)
        most_usd = self._provider.price.cost_usd(upper)
        ends_s = self._clock() + limits.deadline_s
        attempt = 0
        while True:
            self._pause(self._rate.wait_s(size // 3 + limits.output_tokens, self._clock()), ends_s, limits)
            left = replace(limits, deadline_s=ends_s - self._clock())
            try:
                with self._ledger.charge(
                    key, who=self.name, purpose=purpose, most_usd=most_usd, request=request
                ) as charge:
                    charge.completion = self._provider.complete(messages, schema, left)
                return charge.completion
            except CallFailed as failure:
                wait_s = self._retry.wait_s(attempt, failure, self._draw())
                attempt += 1
                now_s = self._clock()
                if failure.kind is FailureKind.BUSY and failure.retry_after_s is not None:
                    self._rate.hold(now_s + wait_s)
                if not failure.again or attempt >= self._retry.attempts or now_s + wait_s >= ends_s:
                    raise
                limits.troubled(str(failure))
                self._pause(wait_s, ends_s, limits)

    def _pause(self, wait_s: float, ends_s: float, limits: Limits) -> None:
        until_s = self._clock() + wait_s
        if until_s >= ends_s and wait_s > 0:
            raise CallFailed(
                f"{self.name}: its rate limit asks for {wait_s:.0f} s more than the deadline leaves",
                FailureKind.BUSY,
            )
        while not limits.cancelled():
            left_s = until_s - self._clock()
            if left_s <= 0:
                return
            self._sleep(min(left_s, _NAP_S))
        raise CallFailed(f"{self.name}: given up", FailureKind.STOPPED)
