"""Why a call gave no answer."""

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
    """What came back is not in the format, or broke off."""
    REFUSED = "refused"
    """The request is wrong: no such model, too long a prompt, a parameter it does not take."""
    KEY = "key"
    """The key is missing, wrong, or out of credit."""
    STOPPED = "stopped"
    """It was given up."""


_AGAIN = frozenset(
    {FailureKind.UNREACHABLE, FailureKind.TIMEOUT, FailureKind.BUSY, FailureKind.SERVER, FailureKind.GARBAGE}
)


class CallFailed(ModelError):
    """One attempt, or all of them, gave no answer."""

    def __init__(
        self, message: str, kind: FailureKind, *, billed: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        """What went wrong."""
        self.billed = billed
        """Whether the provider may ask money for it: it had begun to answer, or nobody knows."""
        self.retry_after_s = retry_after_s
        """How long the server asks to wait."""

    @property
    def again(self) -> bool:
        """Whether another attempt may do better."""
        return self.kind in _AGAIN


def kind_of(status: int) -> FailureKind:
    """Name what an HTTP status means.

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
