"""Rate limiter for a provider's requests and tokens per minute, shared by all threads."""

import math
from threading import Lock


class Rate:
    """Returns how long each call must wait, and books the call.

    Calls are not delayed until a minute's quota is used; then they proceed at the rate of the limit.

    Example:
        >>> rate = Rate(requests_per_minute=60)
        >>> [rate.wait_s(tokens=1, now_s=0.0) for _ in range(61)][-1]
        1.0
    """

    def __init__(self, requests_per_minute: float = math.inf, tokens_per_minute: float = math.inf) -> None:
        self._limits = (requests_per_minute, tokens_per_minute)
        self._full = [-math.inf, -math.inf]
        """By limit: when everything booked would be used up at its rate."""
        self._held_until = -math.inf
        self._lock = Lock()

    def wait_s(self, tokens: int, now_s: float) -> float:
        """Book one call of so many tokens and return the seconds until it may start."""
        with self._lock:
            begin = max(now_s, self._held_until)
            for i, (limit, amount) in enumerate(zip(self._limits, (1, tokens), strict=True)):
                cost_s = 60.0 * amount / limit
                self._full[i] = max(self._full[i], now_s) + cost_s
                begin = max(begin, self._full[i] - max(60.0, cost_s))
            return begin - now_s

    def hold(self, until_s: float) -> None:
        """Start no call before a time, because the server asked for it."""
        with self._lock:
            self._held_until = max(self._held_until, until_s)
