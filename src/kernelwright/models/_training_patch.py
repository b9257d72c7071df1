"""A model whose loss and gradients come from one program: patched for training."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ..records import TensorSpec
from ._capture import Capture
from ._joint import capture_step
from ._patch import Patch
from ._records import Identity
from ._snapshot import Snapshots
from ._target import Loaded


class TrainingPatch(Patch):
    """A model patched for training: a call returns the loss, and `backward` the gradients that came with it.

    Loss and gradients are computed in the call, so `backward` only hands them on, times the gradient of the loss. The
    native model answers whatever `Patch` leaves to it, and besides: calls without gradients, other frozen parameters
    than those that were judged, and eval mode if training mode was judged. A call that gets no `backward` has cost that
    of one. Weights that are changed between a call and its `backward` change nothing.

    Does not cover: second derivatives, which raise an error.
    """

    _training = True

    def __init__(
        self,
        model: nn.Module,
        kernel: Callable[..., Any],
        weights: Sequence[str],
        inputs: Sequence[TensorSpec],
        call: str,
        identity: Identity | None = None,
        snapshots: Snapshots | None = None,
        *,
        trained: Sequence[str],
    ) -> None:
        """Put a training step in place of the model's forward.

        Args:
            model: The model, in the mode in which it was judged.
            kernel: Returns the loss and then the gradients, given inputs and weights.
            weights: Names of parameters and buffers in the order in which the kernel takes them.
            inputs: What the tensors of a call must be.
            call: How a call is nested, and all in it that is no tensor.
            identity: What else the model's answers depend on.
            snapshots: Makes compiled checks of calls.
            trained: Names of the parameters that get a gradient, in the order of the kernel's results.

        Raises:
            InputError: as for `Patch`.
        """
        super().__init__(model, kernel, weights, inputs, call, identity, snapshots)
        self._wants = [name in set(trained) for name in weights]

    def _called(self, count: int) -> Callable[..., Any]:
        return partial(_Loss.apply, self._kernel, self._wants, count)

    def _fits_mode(self, tensors: list[Any], weights: list[torch.Tensor]) -> bool:
        return (
            torch.is_grad_enabled()
            and [w.requires_grad for w in weights] == self._wants
            and not any(t.requires_grad for t in tensors)
        )

    def _captured(self, args: Any, kwargs: Any) -> Capture:
        with torch.enable_grad():
            return capture_step(Loaded("model", self.model, args, kwargs, None, Path("model.py"))).capture


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Callable[..., Any], wants: list[bool], count: int, *given: torch.Tensor
    ) -> torch.Tensor:
        loss, *gradients = kernel(*given)
        rest = iter(gradients)
        ctx.gradients = [None] * (3 + count) + [next(rest) if wanted else None for wanted in wants]
        found: torch.Tensor = loss
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_loss: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients = ctx.gradients
        if gradients is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the gradients were handed on; "
                "specify retain_graph=True when calling backward the first time"
            )
        scale = float(of_loss)
        if torch._C._autograd._get_current_graph_task_keep_graph():
            return tuple(None if g is None else g * scale for g in gradients)
        ctx.gradients = None  # now nothing else holds them, so they may become `.grad` as they are
        if scale != 1.0:
            torch._foreach_mul_([g for g in gradients if g is not None], scale)
        return tuple(gradients)
