"""Arguments of calls in the form in which a worker is told of them."""

from collections.abc import Sequence

from ._channel import Message
from ._types import Argument, Slot


def slot_message(slot: Slot) -> Message:
    """Say where a tensor lies."""
    return {
        "arena": slot.arena, "offset": slot.offset, "nbytes": slot.nbytes, "shape": list(slot.shape),
        "strides": list(slot.strides), "dtype": slot.dtype,
    }  # fmt: skip


def encoded(argument: Argument) -> Message:
    """Say what an argument is."""
    if isinstance(argument, Slot):
        return {"slot": slot_message(argument)}
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        return {"list": [encoded(a) for a in argument]}
    return {"scalar": argument}


def arenas_of(arguments: Sequence[Argument | Sequence[Argument]]) -> set[int]:
    """Number the arenas that hold the tensors of arguments or of sets of them."""
    found: set[int] = set()
    for argument in arguments:
        if isinstance(argument, Slot):
            found.add(argument.arena)
        elif isinstance(argument, list | tuple):
            found |= arenas_of(argument)
    return found
