"""What the wire formats have in common: failures in words, and a watch over a stream."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..errors import MissingToolError
from ._failure import CallFailed, FailureKind, kind_of
from ._protocol import Completion, Limits, Schema

_CONNECT_S = 15.0
_MOST_CHARACTERS = 2_000_000
"""Of an answer; a server that does not keep to the limit of tokens is cut off."""
_MOST_WORDS = 300
"""Characters kept of what a server says."""


def require_sdk(name: str) -> None:
    """See that a provider's SDK is installed, without importing it: that takes most of a second.

    Raises:
        MissingToolError: it is not.
    """
    if find_spec(name) is None:
        raise _missing(name)


def sdk(name: str) -> ModuleType:
    """Import a provider's SDK.

    Raises:
        MissingToolError: it is not installed, or something that it needs is not.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise _missing(name) from error


def _missing(name: str) -> MissingToolError:
    return MissingToolError(
        f"package {name!r} is not installed; it is asked for with: pip install 'kernelwright[{name}]'"
    )


def transport(package: ModuleType) -> ModuleType:
    """Return what an SDK speaks HTTP with: httpx, or what it has in its place."""
    # Classes are renamed by some SDKs, functions are not.
    return sys.modules[package.Timeout.__init__.__module__.partition(".")[0]]


class Broke(Exception):
    """A server told of an error in the middle of its answer; the message is what it said."""


class SchemaWish:
    """Remembers whether a model takes schemas: where it does not, the prompt asks for the same in words."""

    def __init__(self) -> None:
        self._taken = True

    def ask(self, ask: Callable[[Schema | None], Completion], schema: Schema | None) -> Completion:
        """Ask with the schema and, where the request is refused with it, without."""
        if schema is None or not self._taken:
            return ask(None)
        try:
            return ask(schema)
        except CallFailed as failure:
            if failure.kind is not FailureKind.REFUSED:
                raise
            self._taken = False
            return ask(None)


class Watch:
    """Gathers a streamed answer, and gives it up where it is too late, too long or no longer wanted."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._limits = limits
        self._clock = clock
        self._ends_s = clock() + limits.deadline_s
        self._parts: list[str] = []
        self._size = 0
        self.begun = False
        """Whether anything came."""

    @property
    def text(self) -> str:
        """What came so far."""
        return "".join(self._parts)

    @property
    def full(self) -> bool:
        """Whether the answer is longer than any that is wanted."""
        return self._size > _MOST_CHARACTERS

    def take(self, piece: str = "") -> None:
        """Add a piece, and see whether to go on."""
        self.begun = True
        self._parts.append(piece)
        self._size += len(piece)
        self.look()

    def look(self) -> None:
        """See whether to go on.

        Raises:
            CallFailed: it is too late, or nobody wants the answer any more.
        """
        if self._limits.cancelled():
            raise CallFailed(f"{self._name}: given up", FailureKind.STOPPED, billed=True)
        if self._clock() > self._ends_s:
            raise CallFailed(f"{self._name}: {_late(self._limits)}", FailureKind.TIMEOUT, billed=True)

    def end(self) -> str:
        """Return the answer at the end of the stream."""
        if not self.begun:
            raise CallFailed(
                f"{self._name}: what came back is not in the format of this provider",
                FailureKind.GARBAGE,
                billed=True,
            )
        return self.text


@contextmanager
def in_words(package: ModuleType, name: str, key: str, limits: Limits) -> Iterator[None]:
    """Turn whatever an SDK raises into a `CallFailed`, without the key in it."""
    http = transport(package)

    def failed(error: Exception, words: str, kind: FailureKind, **more: Any) -> CallFailed:
        said = f"{words}: {error}"[:_MOST_WORDS] if str(error) else words
        return CallFailed(f"{name}: {hide(said, key)}", kind, **more)

    try:
        yield
    except package.APITimeoutError as error:
        unsent = isinstance(error.__cause__, http.ConnectTimeout | http.PoolTimeout)
        raise failed(error, _late(limits), FailureKind.TIMEOUT, billed=not unsent) from None
    except package.APIConnectionError as error:
        unsent = isinstance(error.__cause__, http.ConnectError)
        raise failed(error, "cannot be reached", FailureKind.UNREACHABLE, billed=not unsent) from None
    except package.APIStatusError as error:
        kind = kind_of(error.status_code)
        words = f"answered {error.status_code} ({kind.value})"
        raise failed(error, words, kind, retry_after_s=retry_after_s(error.response.headers)) from None
    except (package.APIError, Broke) as error:
        raise failed(error, "broke off with an error", FailureKind.SERVER, billed=True) from None
    except http.TimeoutException as error:
        raise failed(error, _late(limits), FailureKind.TIMEOUT, billed=True) from None
    except http.HTTPError as error:
        raise failed(error, "broke off", FailureKind.UNREACHABLE, billed=True) from None
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        words = "what came back is not in the format of this provider"
        raise failed(error, words, FailureKind.GARBAGE, billed=True) from None


def timeout(package: ModuleType, limits: Limits) -> Any:
    """Return the SDK's timeout for one call."""
    limit = max(0.05, limits.deadline_s)
    return package.Timeout(limit, connect=min(_CONNECT_S, limit))


def hide(text: str, key: str) -> str:
    """Take a key out of a text.

    Example:
        >>> hide("wrong key sk-123", "sk-123")
        'wrong key ***'
    """
    return text.replace(key, "***") if key else text


def retry_after_s(headers: Any) -> float | None:
    """Return how long a server asks to wait, or none where it does not say.

    Example:
        >>> retry_after_s({"retry-after": "7"})
        7.0
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after")
        if text is None:
            return None
        if text.strip().replace(".", "", 1).isdigit():
            return float(text)
        # A date: counted from the server's own, so that no clock of ours matters.
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers["date"])
        return max(0.0, wait.total_seconds())
    except (ValueError, TypeError, KeyError):
        return None


def _late(limits: Limits) -> str:
    return f"no answer within {limits.deadline_s:.0f} s"
