"""Kinds of failed model calls, and which of them may be retried."""

from enum import StrEnum

from ..errors import ModelError


class FailureKind(StrEnum):
    """What went wrong."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    BUSY = "busy"
    """Rate-limited or overloaded."""
    SERVER = "server"
    """The server's own fault."""
    GARBAGE = "garbage"
    """The answer is malformed or was cut off."""
    REFUSED = "refused"
    """The request is invalid: no such model, a prompt that is too long, an unsupported parameter."""
    KEY = "key"
    """The key is missing, wrong, or out of credit."""
    STOPPED = "stopped"
    """The call was cancelled."""


_AGAIN = frozenset(
    {FailureKind.UNREACHABLE, FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.SERVER, FailureKind.GARBAGE}
)


class CallFailed(ModelError):
    """One attempt, or all of them, failed to get an answer."""

    def __init__(
        self, message: str, kind: FailureKind, *, billed: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        """What went wrong."""
        self.billed = billed
        """Whether the provider may bill it: it had started to answer, or this is unknown."""
        self.retry_after_s = retry_after_s
        """How long the server asks to wait before a retry."""

    @property
    def again(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind in _AGAIN


def kind_of(status: int) -> FailureKind:
    """Return the kind of failure of an HTTP status.

    Example:
        >>> kind_of(429), kind_of(404)
        (<FailureKind.BUSY: 'busy'>, <FailureKind.REFUSED: 'refused'>)
    """
    if status in {401, 402, 403}:
        return FailureKind.KEY
    if status in {429, 503, 529}:
        return FailureKind.BUSY
    if status == 408:
        return FailureKind.TIMEOUT
    return FailureKind.SERVER if status >= 500 or status == 409 else FailureKind.REFUSED
