"""Base class of resources closed by a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Resource(ABC):
    """Closes itself at the end of a `with` block.

    Example:
        >>> class Door(Resource):
        ...     def close(self):
        ...         print("closed")
        >>> with Door():
        ...     print("inside")
        inside
        closed
    """

    @abstractmethod
    def close(self) -> None:
        """Release what is held; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
