"""Optimizers with torch's conventions: parameter groups, closures, and states that torch's own load."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import torch

from .._core import refuse
from ._ops import check_number, state_dtype
from ._steps import ADAFACTOR, ADAMW, LION, adafactor_, adamw_, lion_

_Closure = Callable[[], Any]


class _Wide(torch.optim.Optimizer):
    """An optimizer whose state is float32 for parameters of 16 bits, after loading too."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of this optimizer, or of torch's of the same name."""
        super().load_state_dict(state_dict)
        ids = chain.from_iterable(group["params"] for group in state_dict["param_groups"])
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        for number, param in zip(ids, params, strict=True):
            for key, value in state_dict["state"].get(number, {}).items():
                if key != "step" and isinstance(value, torch.Tensor):
                    self.state[param][key] = value.detach().to(param.device, state_dtype(param), copy=True)

    def _row(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> tuple[Any, ...]:
        """Return what the kernel takes of a parameter, its state made if it has none."""
        raise NotImplementedError

    def _rows(self, group: dict[str, Any]) -> list[Any]:
        rows: list[Any] = []
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                if grad.is_sparse or p.is_complex():
                    refuse(
                        f"optim.{type(self).__name__}", "a parameter or gradient",
                        "sparse" if grad.is_sparse else "complex", "dense and real",
                    )  # fmt: skip
                rows += self._row(p, grad, group)
        return rows

    def _empty(self, param: torch.Tensor, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        if shape is None:
            return torch.zeros_like(param, dtype=state_dtype(param), memory_format=torch.preserve_format)
        return param.new_zeros(shape, dtype=state_dtype(param))

    def _moved(self, group: dict[str, Any]) -> None:
        raise NotImplementedError

    def step(self, closure: _Closure | None = None) -> Any:
        """Move all parameters that have gradients; return the closure's loss, if one is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._moved(group)
        return loss


def _counted(steps: list[torch.Tensor]) -> list[float]:
    """Count a step in each counter; return the numbers."""
    if not steps:
        return []
    torch._foreach_add_(steps, 1.0)
    found: list[float] = torch.stack([step.cpu() for step in steps]).tolist()
    return found


class AdamW(_Wide, torch.optim.AdamW):
    """`torch.optim.AdamW`, all parameters of a group moved by one kernel.

    State dicts are torch's: each loads the other's. Moments of 16-bit parameters are float32, where torch has 16 bits.
    `foreach`, `fused` and `capturable` have no meaning here; `differentiable` is refused.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = AdamW(layer.parameters(), lr=1e-2)
        >>> layer(torch.ones(4, 3)).sum().backward()
        >>> optimizer.step()
        >>> sorted(optimizer.state_dict()["state"][0])
        ['exp_avg', 'exp_avg_sq', 'step']
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._step_supports_amp_scaling = (
            False  # a fused optimizer of torch's divides by the scale of a `GradScaler`
        )
        if any(group["differentiable"] for group in self.param_groups):
            refuse("optim.AdamW", "differentiable", True, "False; torch.optim.AdamW has such steps")

    def _row(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> tuple[Any, ...]:
        state = self.state[p]
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=self._empty(p), exp_avg_sq=self._empty(p))
        largest = None
        if group["amsgrad"]:
            if "max_exp_avg_sq" not in state:
                state["max_exp_avg_sq"] = self._empty(p)
            largest = state["max_exp_avg_sq"]
        return p, grad, state["exp_avg"], state["exp_avg_sq"], largest, state["step"]

    def _moved(self, group: dict[str, Any]) -> None:
        beta1, beta2 = float(group["betas"][0]), float(group["betas"][1])
        lr, eps, decay, up = float(group["lr"]), group["eps"], group["weight_decay"], group["maximize"]
        rows = self._rows(group)
        if not ADAMW.run((lr, beta1, beta2, eps, decay, up), rows):
            params, grads, means, squares, largest, steps = (rows[i::6] for i in range(6))
            adamw_(
                params, grads, means, squares, largest if group["amsgrad"] else None, steps=_counted(steps), lr=lr,
                betas=(beta1, beta2), eps=eps, weight_decay=decay, maximize=up,
            )  # fmt: skip


class Lion(_Wide):
    """Lion: steps of one size for all elements, in the direction of a sign.

    Args:
        params: Parameters, or groups of them.
        lr: The size of a step.
        betas: What of the moment is in the direction, and what the moment keeps of itself.
        weight_decay: Times `lr`, what a parameter loses of itself.
        maximize: Whether to go up instead of down.

    Source: Chen et al., Symbolic discovery of optimization algorithms (2023), program 1.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = Lion(layer.parameters(), lr=1e-3)
        >>> layer(torch.ones(4, 3)).sum().backward()
        >>> optimizer.step()
        >>> list(optimizer.state_dict()["state"][0])
        ['exp_avg']
    """

    def __init__(
        self, params: Any, lr: float | torch.Tensor = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        check_number("optim.Lion", "lr", float(lr), 0)
        check_number("optim.Lion", "beta1", betas[0], 0, 1)
        check_number("optim.Lion", "beta2", betas[1], 0, 1)
        check_number("optim.Lion", "weight_decay", weight_decay, 0)
        super().__init__(
            params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        )

    def _row(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> tuple[Any, ...]:  # noqa: ARG002
        state = self.state[p]
        if not state:
            state["exp_avg"] = self._empty(p)
        return p, grad, state["exp_avg"]

    def _moved(self, group: dict[str, Any]) -> None:
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        decay, up, rows = group["weight_decay"], group["maximize"], self._rows(group)
        if not LION.run((lr, beta1, beta2, decay, up), rows):
            params, grads, means = (rows[i::3] for i in range(3))
            lion_(params, grads, means, lr=lr, betas=(beta1, beta2), weight_decay=decay, maximize=up)


class Adafactor(_Wide, torch.optim.Adafactor):
    """`torch.optim.Adafactor`: second moments by row and column, a kernel for each matrix.

    State dicts are torch's. States of 16-bit parameters, and the arithmetic, are float32, where torch has 16 bits.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = Adafactor(layer.parameters(), lr=1e-2)
        >>> layer(torch.ones(4, 3)).sum().backward()
        >>> optimizer.step()
        >>> sorted(optimizer.state_dict()["state"][0])
        ['col_var', 'row_var', 'step']
    """

    def _row(self, p: torch.Tensor, grad: torch.Tensor, group: dict[str, Any]) -> tuple[Any, ...]:  # noqa: ARG002
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            if p.dim() > 1:
                state["row_var"] = self._empty(p, (*p.shape[:-1], 1))
                state["col_var"] = self._empty(p, (*p.shape[:-2], 1, p.shape[-1]))
            else:
                state["variance"] = self._empty(p)
        if "variance" in state:
            return p, grad, state["variance"], None, state["step"]
        return p, grad, state["row_var"], state["col_var"], state["step"]

    def _moved(self, group: dict[str, Any]) -> None:
        lr, decay2, (eps1, eps2), d = float(group["lr"]), group["beta2_decay"], group["eps"], group["d"]
        decay, up, rows = group["weight_decay"], group["maximize"], self._rows(group)
        first = torch.finfo(torch.float32).eps if eps1 is None else eps1
        if not ADAFACTOR.run((lr, decay2, first, eps2, d, decay, up), rows):
            params, grads, means, columns, steps = (rows[i::5] for i in range(5))
            whole = [row if column is None else None for row, column in zip(means, columns, strict=True)]
            adafactor_(
                params, grads, means, columns, whole, steps=_counted(steps), lr=lr,
                beta2_decay=decay2, eps=(eps1, eps2), d=d, weight_decay=decay, maximize=up,
            )  # fmt: skip
