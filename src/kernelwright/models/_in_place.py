"""What answers in place of a model's forward, until it is removed."""

from types import TracebackType
from typing import Any, Final, Self

from torch import nn

from ..errors import InputError

PLACE: Final = "forward"
"""Where a module's own forward lies among its attributes."""


class InPlace:
    """Something that answers a model's calls. As a context manager it is removed at the end."""

    model: nn.Module

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call of the model: what lies in place of its forward."""
        raise NotImplementedError

    def remove(self) -> None:
        """Take it off: the model is as it was; a second call does nothing."""
        if vars(self.model).get(PLACE) == self.answer:
            del vars(self.model)[PLACE]

    def __enter__(self) -> Self:
        """Return the patch, which is in place already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it off."""
        self.remove()


def check_free(model: nn.Module) -> None:
    """Refuse a model whose forward something else lies in place of.

    Raises:
        InputError: it is so.
    """
    if PLACE in vars(model):
        raise InputError("the model's forward is replaced already; remove that first")
