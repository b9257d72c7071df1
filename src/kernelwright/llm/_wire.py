"""Shared by the wire formats: translates failures and supervises streams."""

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
"""Most characters of an answer; a server that ignores the token limit is cut off."""
_MOST_WORDS = 300
"""Most characters kept of a server's error message."""


def require_sdk(name: str) -> None:
    """Check that a provider's SDK is installed, without importing it, which takes most of a second.

    Raises:
        MissingToolError: it is not.
    """
    if find_spec(name) is None:
        raise _missing(name)


def sdk(name: str) -> ModuleType:
    """Import a provider's SDK.

    Raises:
        MissingToolError: it or one of its dependencies is not installed.
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
    """Return the HTTP library of an SDK: httpx, or its replacement."""
    # Some SDKs rename classes, but not functions.
    return sys.modules[package.Timeout.__init__.__module__.partition(".")[0]]


class Broke(Exception):
    """A server reported an error in the middle of its answer; the message is the server's."""


class SchemaWish:
    """Remembers whether a model accepts schemas; if not, the prompt still describes the format in words."""

    def __init__(self) -> None:
        self._taken = True

    def ask(self, ask: Callable[[Schema | None], Completion], schema: Schema | None) -> Completion:
        """Ask with the schema and, if the request is refused with it, without."""
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
    """Collects a streamed answer, and aborts it if it is too late, too long or cancelled."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._limits = limits
        self._clock = clock
        self._ends_s = clock() + limits.deadline_s
        self._parts: list[str] = []
        self._size = 0
        self.begun = False
        """Whether anything was received."""

    @property
    def text(self) -> str:
        """The text received so far."""
        return "".join(self._parts)

    @property
    def full(self) -> bool:
        """Whether the answer exceeds the maximum length."""
        return self._size > _MOST_CHARACTERS

    def take(self, piece: str = "") -> None:
        """Add a piece, and check whether to continue."""
        self.begun = True
        self._parts.append(piece)
        self._size += len(piece)
        self.look()

    def look(self) -> None:
        """Check whether to continue.

        Raises:
            CallFailed: it is too late, or the call was cancelled.
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
    """Convert whatever an SDK raises into a `CallFailed` that does not contain the key."""
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
    """Remove a key from a text.

    Example:
        >>> hide("wrong key sk-123", "sk-123")
        'wrong key ***'
    """
    return text.replace(key, "***") if key else text


def retry_after_s(headers: Any) -> float | None:
    """Return how long a server asks to wait, or None if it does not.

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
        # A date: relative to the server's own date, so that our clock does not matter.
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers["date"])
        return max(0.0, wait.total_seconds())
    except (ValueError, TypeError, KeyError):
        return None


def _late(limits: Limits) -> str:
    return f"no answer within {limits.deadline_s:.0f} s"
