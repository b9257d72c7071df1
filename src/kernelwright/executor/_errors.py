"""What the executor raises."""

from ..errors import InputError


class PtxError(InputError):
    """The PTX cannot be read: what is wrong, and on which line."""


class NotExecutedError(InputError):
    """The PTX is well formed, and holds something that the executor does not execute."""


class FaultError(InputError):
    """A launch that the executor found at fault: the first finding, in a sentence."""
