"""The guard: the verified kernel where it was verified, the native op everywhere else."""

import json
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import loaders
from .operators import is_autocast, is_transformed, single
from .sampling import compared


class Dispatcher:
    """Call a verified specialisation inside its guard and the native op outside it.

    Covers: other ranks, dtypes, devices, layouts, scalars and sizes than those verified and timed; gradients asked
    for, autocast, transforms of torch.func; a specialisation that cannot be loaded or that declines: all go to the
    native op.
    Does not cover: a kernel that is wrong inside its guard (that is what acceptance is for), unless calls are
    sampled: then one in `sample`, drawn by chance, is compared with the native op, which takes over for good from a
    specialisation that is wrong, with a warning. Calls of random ops are not compared.

    Args:
        folder: The package's folder, with `specialisations.json` and `specialisations/`.
        native: The native op, called with the same arguments.
        sample: Compare one call in so many; 0: none. By default as `KERNELWRIGHT_SAMPLE` says, else 0.
    """

    def __init__(self, folder: Path, native: Callable[..., Any], sample: int | None = None) -> None:
        self.native = native
        off = _switched_off(folder)
        table = json.loads((folder / "specialisations.json").read_text())
        self.specialisations: list[dict[str, Any]] = [row for row in table if row["name"] not in off]
        self._folder = folder
        self.sample = int(os.environ.get("KERNELWRIGHT_SAMPLE") or 0) if sample is None else sample
        self._chance = random.Random()
        self._plans: dict[tuple[Any, ...], tuple[Callable[..., Any], bool]] = {}
        """What is called for arguments that are described so, and whether one of them asks for gradients."""
        self._functions: dict[str, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Compute the op; same results as the native op within the verified tolerance."""
        return self.answer(arguments, self.native)

    def answer(self, arguments: tuple[Any, ...], native: Callable[..., Any]) -> Any:
        """Compute the op, by another native form than the package's own where no specialisation admits the call."""
        if is_transformed() or is_autocast():
            return native(*arguments)
        key = tuple([
            (a.shape, a.stride(), a.dtype, a.device, type(a), a.requires_grad) if isinstance(a, torch.Tensor) else a
            for a in arguments
        ])  # fmt: skip
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = self._plan(arguments), _wants_gradient(arguments)
        plan, differentiable = known
        if plan is self.native or (differentiable and torch.is_grad_enabled()):
            return native(*arguments)
        if self.sample > 0 and self._chance.randrange(self.sample) == 0:
            return self._sampled(plan, arguments)
        return plan(*arguments)

    def _sampled(self, plan: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Compare a call with the native op; a specialisation that is wrong serves no more."""
        specialisation = self.admitting(arguments)
        if specialisation is None or not specialisation.get("tolerance"):
            return plan(*arguments)
        result, wrong = compared(plan, self.native, arguments, specialisation["tolerance"])
        if wrong:
            self.specialisations.remove(specialisation)
            self._plans.clear()
            name = specialisation["name"]
            said = f"specialisation {name} was wrong in a sampled call ({wrong}); it is not used any more"
            warnings.warn(said, RuntimeWarning, stacklevel=3)
        return result

    def choose(self, *arguments: Any) -> str:
        """Name the specialisation that would serve these arguments, the first that admits them, or `native`."""
        chosen = self.admitting(arguments)
        return str(chosen["name"]) if chosen else "native"

    def admitting(self, arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return the row of the specialisation that would serve these arguments; None if the native op would."""
        return next((v for v in self.specialisations if _admits(v["guard"], arguments)), None)

    def _plan(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        specialisation = self.admitting(arguments)
        if specialisation is None:
            return self.native
        try:
            return self._load(specialisation, arguments)
        except loaders.Unavailable as error:
            warnings.warn(
                f"specialisation {specialisation['name']} is not used: {error}", RuntimeWarning, stacklevel=3
            )
            return self.native

    def _load(self, specialisation: dict[str, Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        if specialisation["style"] == "function":
            return self._guarded(self._function(specialisation))
        kernel = (
            self._compiled(specialisation)
            if specialisation["language"] == "cpp"
            else self._function(specialisation)
        )
        specs = output_specs(self.native, arguments)
        device = next((a.device for a in arguments if isinstance(a, torch.Tensor)), torch.device("cpu"))
        likes = [loaders.hollow(shape, dtype, device) for shape, dtype in specs]
        return self._guarded(loaders.destination(kernel, likes, arguments))

    def _compiled(self, specialisation: dict[str, Any]) -> Callable[..., Any]:
        kernels = loaders.load_cpp(
            self._folder / "specialisations" / specialisation["name"], tuple(specialisation["flags"])
        )
        kernel: Callable[..., Any] = getattr(kernels, specialisation["entry"].partition(":")[2])
        return kernel

    def _function(self, specialisation: dict[str, Any]) -> Callable[..., Any]:
        """Load a function once for all sizes, so that its weights are packed once where it declares `prepare`."""
        from .prepared import prepared  # type: ignore[import-not-found]  # put beside this file by the export

        name = specialisation["name"]
        if name not in self._functions:
            folder = self._folder / "specialisations" / name
            given = (
                {"kernels": loaders.load_cpp(folder, tuple(specialisation["flags"]))}
                if specialisation["flags"]
                else {}
            )
            kernel = loaders.load_python(folder, specialisation["entry"], **given)
            self._functions[name] = prepared(kernel, specialisation["weights"]) or kernel
        return self._functions[name]

    def _guarded(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return single(kernel(*arguments))
            except (NotImplementedError, RuntimeError) as error:
                if not str(error).startswith("Unsupported"):
                    raise
                return self.native(*arguments)

        return call


def _switched_off(folder: Path) -> dict[str, str]:
    """Return the specialisations that a later check found not to hold, each with the reason, and warn of them."""
    file = folder / "switched_off.json"
    off: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
    for name, reason in off.items():
        warnings.warn(f"specialisation {name} is switched to native: {reason}", RuntimeWarning, stacklevel=3)
    return off


def output_specs(
    native: Callable[..., Any], arguments: tuple[Any, ...]
) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Find shapes and dtypes of the op's results without computing them."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        results, _ = _pytree.tree_flatten(native(*fakes))
    return [(tuple(r.shape), r.dtype) for r in results]


def _wants_gradient(arguments: tuple[Any, ...]) -> bool:
    return any(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)


def _admits(guard: list[dict[str, Any]], arguments: tuple[Any, ...]) -> bool:
    admitted = len(guard) == len(arguments) and all(map(_admits_one, guard, arguments))
    return admitted and _is_consistent(guard, arguments)


def _is_consistent(guard: list[dict[str, Any]], arguments: tuple[Any, ...]) -> bool:
    """Tell whether each symbol has one value in all sizes that follow from it, and a multiple of what it must be."""
    values: dict[str, int] = {}
    for rule, argument in zip(guard, arguments, strict=True):
        for axis, symbol in enumerate(rule.get("symbols", ())):
            if symbol is None:
                continue
            name, scale, offset, multiple = symbol
            value, rest = divmod(argument.shape[axis] - offset, scale)
            if rest or value % multiple or values.setdefault(name, value) != value:
                return False
    return True


def _admits_one(rule: dict[str, Any], argument: Any) -> bool:
    if "value" in rule:
        return not isinstance(argument, torch.Tensor) and bool(argument == rule["value"])
    return (
        type(argument) in (torch.Tensor, torch.nn.Parameter)
        and str(argument.dtype) == f"torch.{rule['dtype']}"
        and argument.device.type == rule["device"]
        and argument.is_contiguous()
        and argument.dim() == len(rule["sizes"])
        and all(low <= size <= high for size, (low, high) in zip(argument.shape, rule["sizes"], strict=True))
    )
