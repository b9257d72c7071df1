"""Loaded → Captures: the graph of a model as its ATen ops, with the module that each came from.

torch.export gives one graph; where it cannot, Dynamo gives one for each piece between graph breaks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..tasks.capture import quiet
from ._target import Loaded, Whole, unchanged
from ._unusual import sparse_in
from .pieces import Capture, exported


@dataclass(frozen=True)
class Captured:
    """The graphs of a model."""

    pieces: tuple[Capture, ...]
    """One graph, or several where the model cannot be exported as one."""
    breaks: tuple[str, ...] = ()
    """Why and where a graph ends before the model does."""

    @property
    def whole(self) -> Capture | None:
        """The only graph; None where there are several pieces."""
        return self.pieces[0] if len(self.pieces) == 1 and not self.breaks else None


def capture_model(loaded: Loaded) -> Captured:
    """Capture a model, in pieces where it cannot be exported.

    Example:
        >>> from kernelwright.models import load_model
        >>> captured = capture_model(load_model("examples/small_transformer.py:build"))
        >>> [piece.name for piece in captured.pieces], captured.breaks
        (['model'], ())
    """
    whole = loaded.whole
    if said := sparse_in(loaded.module, whole.tensors):
        return Captured((), (said,))
    with quiet(), torch.no_grad(), unchanged(whole):
        try:
            return Captured((_as_one(whole),))
        except Exception as error:  # noqa: BLE001  whatever a model raises while it is exported, Dynamo is asked next
            why = f"torch.export: {_first_line(error)}"
        return _in_pieces(whole, why)


def capture_as_one(whole: Whole) -> Capture:
    """Capture a model as one graph; raises whatever it and torch.export raise where it has none."""
    with quiet(), torch.no_grad(), unchanged(whole):
        return _as_one(whole)


def _as_one(whole: Whole) -> Capture:
    return exported("model", whole, whole.tensors, whole.state_dict(keep_vars=True))


def _in_pieces(whole: Whole, why: str) -> Captured:
    """Let Dynamo run the model once, and export each graph that it finds on the values that occur."""
    found: list[tuple[fx.GraphModule, tuple[Any, ...]]] = []

    def collect(graph: fx.GraphModule, _: Sequence[torch.Tensor]) -> Any:
        seen: list[bool] = []

        def run(*values: Any) -> Any:
            if not seen:
                seen.append(True)
                found.append((graph, values))
            return graph(*values)

        return run

    breaks = [why]
    torch._dynamo.reset()
    try:
        explained = torch._dynamo.explain(whole)(*whole.tensors)
        breaks += [_told(reason) for reason in explained.break_reasons]
        torch._dynamo.reset()
        torch.compile(whole, backend=collect, dynamic=False)(*whole.tensors)
    except Exception as error:  # noqa: BLE001  the model's own code runs here
        breaks.append(f"Dynamo: {_first_line(error)}")
    finally:
        torch._dynamo.reset()
    pieces = []
    state = whole.state_dict(keep_vars=True)
    for number, (graph, values) in enumerate(found, 1):
        try:
            pieces.append(exported(f"piece {number}", graph, values, state))
        except Exception as error:  # noqa: BLE001  a piece that cannot be exported is named, the rest is planned
            breaks.append(f"piece {number}: {_first_line(error)}")
    return Captured(tuple(pieces), tuple(dict.fromkeys(breaks)))


def _told(reason: Any) -> str:
    """Say where and why a graph breaks."""
    stack = reason.user_stack
    where = f"{stack[-1].filename}:{stack[-1].lineno}: " if stack else ""
    return f"{where}{' '.join(str(reason.reason).split())[:200]}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"
