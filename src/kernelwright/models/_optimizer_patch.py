"""torch's optimizer → the same object with steps of one kernel: `kernelwright.ops.optim` in place of its class.

Covers: `torch.optim.AdamW` and `Adafactor` on dense float32 parameters of a CPU; states, hooks, schedulers and state
dictionaries stay as they are.
Does not cover: other optimizers, parameters of other dtypes, `capturable` and `differentiable`, which are refused.
"""

from types import TracebackType
from typing import Self

import torch

from ..errors import InputError
from ..ops import optim

_KERNELS: dict[type[torch.optim.Optimizer], type[torch.optim.Optimizer]] = {
    torch.optim.AdamW: optim.AdamW,
    torch.optim.Adafactor: optim.Adafactor,
}


class OptimizerPatch:
    """An optimizer whose steps move all parameters in one call. As a context manager it is removed at the end.

    Example:
        >>> layer = torch.nn.Linear(3, 2)
        >>> optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
        >>> with OptimizerPatch(optimizer):
        ...     layer(torch.ones(4, 3)).sum().backward()
        ...     optimizer.step()
        >>> type(optimizer) is torch.optim.AdamW, sorted(optimizer.state_dict()["state"][0])
        (True, ['exp_avg', 'exp_avg_sq', 'step'])
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the kernel in place.

        Args:
            optimizer: The optimizer, new or in use.

        Raises:
            InputError: no kernel has its steps.
        """
        kind = type(optimizer)
        if kind not in _KERNELS:
            names = ", ".join(f"torch.optim.{known.__name__}" for known in _KERNELS)
            raise InputError(
                f"no kernel has the steps of {kind.__module__}.{kind.__qualname__}; expected {names}"
            )
        for group in optimizer.param_groups:
            for option in ("capturable", "differentiable"):
                if group.get(option):
                    raise InputError(f"an optimizer with {option}=True cannot be patched; set it to False")
            for parameter in group["params"]:
                if parameter.dtype is not torch.float32 or parameter.device.type != "cpu":
                    raise InputError(
                        f"a parameter is {parameter.dtype} on {parameter.device}; expected float32 on the CPU"
                    )
        self.optimizer, self._native = optimizer, kind
        self._scaled = vars(optimizer).get("_step_supports_amp_scaling")
        optimizer.__class__ = _KERNELS[kind]
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]  # a `GradScaler` divides by itself
        optimizer._patch_step_function()  # hooks run around the steps of this class, too

    def remove(self) -> None:
        """Give the optimizer its own steps back; a second call does nothing."""
        if type(self.optimizer) is _KERNELS[self._native]:
            self.optimizer.__class__ = self._native
            vars(self.optimizer).pop("_step_supports_amp_scaling", None)
            if self._scaled is not None:
                self.optimizer._step_supports_amp_scaling = self._scaled  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        """Return the patch, which is in place already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the patch off."""
        self.remove()
