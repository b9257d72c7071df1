"""Keep each recurrent layer as one operation: unrolled, a few hundred steps are thousands of nodes."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_SPACE = "kernelwright"


class Whole(TorchFunctionMode):
    """Calls layers over whole sequences through custom operators, which dispatch does not decompose.

    Covers: `nn.LSTM`, `nn.GRU` and `nn.RNN`, of any number of layers and directions.
    Does not cover: packed sequences, dropout between layers in training, single cells: these are decomposed.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # torch does not annotate it
        """Replace the layer if it is recurrent."""
        name = getattr(func, "__name__", "")
        if name in _LAYERS and func is getattr(torch, name) and not kwargs and _is_padded(args):
            func = getattr(getattr(torch.ops, _SPACE), name)
        return func(*args, **(kwargs or {}))


def bare(overload: str) -> str:
    """Return torch's own name of an overload.

    Example:
        >>> bare("kernelwright.gru.default"), bare("aten.mm.default")
        ('aten.gru.input', 'aten.mm.default')
    """
    space, name, _ = overload.split(".")
    return f"aten.{name}.input" if space == _SPACE else overload


def _is_padded(args: Sequence[object]) -> bool:
    """Distinguish the arguments of a padded sequence, without random dropout, from those of a packed one."""
    return len(args) == 9 and isinstance(args[3], bool) and not (args[5] and args[6])


def _run(name: str, *args: object) -> tuple[Tensor, ...]:
    results: tuple[Tensor, ...] = getattr(torch, name)(*args)
    return tuple(result.clone() for result in results)  # an operator's results share no memory


def _empty(x: Tensor, state: Tensor | Sequence[Tensor], *options: object) -> tuple[Tensor, ...]:
    states, both_ways = [state] if isinstance(state, Tensor) else state, options[5]
    features = states[0].shape[-1] * (2 if both_ways else 1)
    return x.new_empty(*x.shape[:-1], features), *map(torch.empty_like, states)


def _define() -> None:
    for name in _LAYERS:
        schema, own = str(getattr(torch.ops.aten, name).input._schema), f"{_SPACE}::{name}"
        torch.library.define(own, schema[schema.index("(") :])
        torch.library.impl(own, "CompositeExplicitAutograd", partial(_run, name))
        torch.library.register_fake(own, _empty)


_define()
