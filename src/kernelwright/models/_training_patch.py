"""A model whose loss and gradients come from one program: patched for training."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from ..errors import InputError
from ..records import TensorSpec
from ._drawn import draw
from ._joint import capture_step
from ._patch import Patch
from ._records import Identity, StepForm
from ._snapshot import Snapshots
from ._target import Loaded
from .pieces import Capture


class TrainingPatch(Patch):
    """A model patched for training: a call returns the loss, and `backward` the gradients that came with it.

    Loss and gradients are computed in the call, so `backward` only hands them on, times the gradient of the loss. The
    native model answers whatever `Patch` leaves to it, and besides: calls without gradients, other frozen parameters
    than those that were judged, and eval mode if training mode was judged. A call that gets no `backward` has cost that
    of one. Weights that are changed between a call and its `backward` change nothing. Torch draws random numbers, as of
    dropout, in the order of the model, and draws them again where the kernel declines the call after that; buffers that
    a step changes, as of batch norm, change in the call.

    Does not cover: second derivatives, and gradients through other results than the loss; both raise an error.
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
        form: StepForm = StepForm(),  # noqa: B008  frozen
    ) -> None:
        """Put a training step in place of the model's forward.

        Args:
            model: The model, in the mode in which it was judged.
            kernel: Returns loss, gradients, other results and new values of buffers, given inputs, random numbers and
                weights.
            weights: Names of parameters and buffers in the order in which the kernel takes them.
            inputs: What the tensors of a call must be.
            call: How a call is nested, and all in it that is no tensor.
            identity: What else the model's answers depend on.
            snapshots: Makes compiled checks of calls.
            trained: Names of the parameters that get a gradient, in the order of the kernel's results.
            form: What else the kernel takes and returns.

        Raises:
            InputError: as for `Patch`.
        """
        super().__init__(model, kernel, weights, inputs, call, identity, snapshots)
        self._form = form
        self._wants = [name in set(trained) for name in weights]
        self._told = [i for i, name in enumerate(weights) if name not in set(form.unused)]
        self._changed = [self._weight_names.index(name) for name in form.changed]

    def _called(self, count: int) -> Callable[..., Any]:
        return partial(self._step, count)

    def _step(self, count: int, *given: torch.Tensor) -> Any:
        """Return the tensors of the model's result, given a call's tensors and the weights; change the buffers."""
        weights, form = given[count:], self._form
        before = torch.default_generator.get_state() if form.drawn else None
        drawn = draw(form.drawn)
        apply: Callable[..., Any] = _Loss.apply
        try:
            loss, *more = apply(
                self._kernel, self._wants, form, count + len(drawn), *given[:count], *drawn, *weights
            )
        except (NotImplementedError, RuntimeError):
            if before is not None:  # the native model, which answers what a kernel declines, draws the same
                torch.default_generator.set_state(before)
            raise
        others, updates = more[: form.others], more[form.others :]
        with torch.no_grad():
            for place, new in zip(self._changed, updates, strict=True):
                weights[place].copy_(new)
        return (*others[: form.loss], loss, *others[form.loss :]) if others else loss

    def _fits_mode(self, tensors: list[Any], weights: list[torch.Tensor]) -> bool:
        return (
            torch.is_grad_enabled()
            and all(weights[i].requires_grad is self._wants[i] for i in self._told)
            and not any(t.requires_grad for t in tensors)
        )

    def _captured(self, args: Any, kwargs: Any) -> Capture:
        with torch.enable_grad():
            step = capture_step(Loaded("model", self.model, args, kwargs, None, Path("model.py")))
        if step.form != self._form:
            raise InputError("a step takes or returns something else than the judged one")
        return step.capture


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernel: Callable[..., Any],
        wants: list[bool],
        form: StepForm,
        count: int,
        *given: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        loss, *results = kernel(*given)
        total = sum(wants)
        gradients, more = iter(results[:total]), results[total:]
        ctx.gradients = [None] * (4 + count) + [next(gradients) if wanted else None for wanted in wants]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*more[form.others :], *(t for t in more if not t.is_floating_point()))
        return loss, *more

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_loss: torch.Tensor | None, *of_others: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        gradients = ctx.gradients
        if any(one is not None for one in of_others):
            raise RuntimeError(
                "a gradient came through a result that is not the loss, which the judged step does not have; take the "
                "patch off to train by other results"
            )
        if gradients is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time: the gradients were handed on; "
                "specify retain_graph=True when calling backward the first time"
            )
        scale = float(of_loss) if of_loss is not None else 0.0
        if torch._C._autograd._get_current_graph_task_keep_graph():
            return tuple(None if g is None else g * scale for g in gradients)
        ctx.gradients = None  # now nothing else holds them, so they may become `.grad` as they are
        if scale != 1.0:
            torch._foreach_mul_([g for g in gradients if g is not None], scale)
        return tuple(gradients)
