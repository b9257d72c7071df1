"""Infer a KernelBench file's shapes: of a small one for real, else on the meta device, where nothing is allocated."""

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import torch

from ...errors import TaskError
from ...records import Distribution, Reference, Scalar, ScalarSpec, TensorSpec
from ..capture._shapes import shapes_alone
from ..inputs._draw import dtype_name, elements_of, layout_of
from ..inputs._recognise import Recogniser
from ..inputs._seed import seed_torch
from ..inputs._state import materialised
from ._devices import Anywhere
from ._small import Small
from ._source import run_reference

Spec = TensorSpec | ScalarSpec
_MOST_REAL = 1 << 24
"""Most elements with which a file that the meta device cannot run is really run."""
CHEAPER_REAL = 1 << 16
"""Most elements of inputs and parameters with which a real run is cheaper than one on the meta device."""
_MOST_MADE = 1 << 27
"""Most elements of inputs that are made for their sizes where the meta device cannot make them."""


@dataclass(frozen=True)
class Probe:
    """What one run of the file shows."""

    arguments: tuple[Spec, ...]
    state: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    device: str
    """`meta`, or `cpu` where it was really run."""
    training: bool = True
    """The mode in which the constructor left the module."""
    ran: bool = True
    """Whether `forward` ran, so that the outputs are known."""

    @property
    def elements(self) -> int:
        """Elements of inputs, parameters and outputs together."""
        return elements_of((*self.arguments, *self.state, *self.outputs))


def probe(reference: Reference, *, meta_alone: bool = False, outputs: bool = True) -> Probe:
    """Run `get_inputs`, `Model` and its `forward`: really if all is small or meta cannot, else on the meta device.

    Args:
        reference: The file.
        meta_alone: The file is known to run on the meta device: what fails there fails.
        outputs: Whether outputs must be known; else a file that meta cannot run, and that is too large to be run
            really, is probed without them.

    Raises:
        TaskError: the file has no `Model` or `get_inputs`, or they raise.
    """
    module = run_reference(reference)
    check_form(module, reference.origin)
    if not meta_alone and (small := _small_probe(module, reference)):
        return small
    try:
        return _probe(module, reference, "meta")
    except TaskError as failed:
        most = _MOST_REAL if outputs else _MOST_MADE
        made = None if meta_alone else _without_outputs(module, reference, most)
        if made is not None and not outputs and made.elements > _MOST_REAL:
            return made
        specs = made.arguments if made else None if meta_alone else _argument_specs(module, reference)
        if specs is None or elements_of(specs) > _MOST_REAL:
            raise
        try:
            return _probe(module, reference, "cpu")
        except TaskError:
            raise failed from None


def check_form(module: ModuleType, origin: str) -> None:
    """Raise `TaskError` unless the module has `Model` and `get_inputs`."""
    for name in ("Model", "get_inputs"):
        if not callable(getattr(module, name, None)):
            raise TaskError(
                f"{origin} defines no {name!r}; expected the KernelBench form (class Model, get_inputs(), "
                "get_init_inputs()) or a function under @kw.task"
            )


def inputs_of(module: ModuleType, origin: str) -> list[Any]:
    """Call `get_inputs` and return its values as a list, on the default device whichever it names."""
    with Anywhere():
        made = called(module.get_inputs, f"{origin}: get_inputs()")
    values = list(made) if isinstance(made, list | tuple) else [made]
    for value in values:
        if not isinstance(value, torch.Tensor) and not _is_scalar(value):
            raise TaskError(
                f"{origin}: get_inputs() returned a {type(value).__name__}; expected tensors, numbers, "
                "strings and tuples of numbers"
            )
    return values


def shaped_inputs(module: ModuleType, origin: str) -> list[Any]:
    """Return what `get_inputs` makes, for its shapes: small inputs for real, others on the meta device."""
    small = Small(CHEAPER_REAL)
    try:
        with torch.random.fork_rng(), torch.device("cpu"), small:
            made = inputs_of(module, origin)
        if not small.refused:
            return made
    except TaskError:
        if not small.refused:
            raise
    with torch.device("meta"):
        return inputs_of(module, origin)


def init_of(module: ModuleType, origin: str) -> tuple[Any, ...]:
    """Call `get_init_inputs` if there is one."""
    if not hasattr(module, "get_init_inputs"):
        return ()
    made = called(module.get_init_inputs, f"{origin}: get_init_inputs()")
    return tuple(made) if isinstance(made, list | tuple) else (made,)


def called(function: Callable[..., Any], what: str, *args: Any) -> Any:
    """Call the user's code; whatever it raises becomes a `TaskError` that names it."""
    try:
        return function(*args)
    except Exception as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        raise TaskError(f"{what} raised {type(error).__name__}: {message}") from error


def flatten(result: object) -> tuple[torch.Tensor, ...]:
    """Flatten a result into its tensors, in order; numbers become scalar tensors."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, bool | int | float):
        return (torch.tensor(result),)
    if isinstance(result, dict):
        return tuple(t for v in result.values() for t in flatten(v))
    if isinstance(result, list | tuple):
        return tuple(t for v in result for t in flatten(v))
    if result is None:
        return ()
    raise TaskError(f"the reference returned a {type(result).__name__}; expected tensors")


def specs_of(
    values: Sequence[Any], names: Sequence[str], known: Callable[[torch.Tensor], Distribution]
) -> tuple[Spec, ...]:
    """Describe arguments by shape, dtype, layout and distribution."""
    specs: list[Spec] = []
    for name, value in zip(names, values, strict=True):
        if isinstance(value, torch.Tensor):
            specs.append(
                TensorSpec(
                    name=name,
                    shape=tuple(value.shape),
                    dtype=dtype_name(value.dtype),
                    layout=cast(Any, layout_of(value)),
                    distribution=known(value),
                )
            )
        else:
            specs.append(
                ScalarSpec(name=name, value=tuple(value) if isinstance(value, list | tuple) else value)
            )
    return tuple(specs)


def output_specs(result: object) -> tuple[TensorSpec, ...]:
    """Describe the flattened results."""
    return tuple(
        TensorSpec(name=f"output{i}", shape=tuple(t.shape), dtype=dtype_name(t.dtype))
        for i, t in enumerate(flatten(result))
    )


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Name the first `count` positional arguments; `*args` are numbered."""
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in plain]
    return [names[i] if i < len(names) else f"argument{i}" for i in range(count)]


def _small_probe(module: ModuleType, reference: Reference) -> Probe | None:
    """Really run a file that makes few elements, whose errors are then raised; None where it makes more."""
    small = Small(CHEAPER_REAL)
    try:
        probed = _probe(module, reference, "cpu", small)
    except TaskError:
        if not small.refused:
            raise
        return None
    return None if small.refused else probed


def _without_outputs(module: ModuleType, reference: Reference, most: int) -> Probe | None:
    """Make inputs and module for their sizes alone; nothing where they cannot be made, or are too large for real."""
    for device, small in (("meta", None), ("cpu", Small(most, known=False))):
        try:
            return _probe(module, reference, device, small, runs=False)
        except TaskError:
            continue
    return None


def _probe(
    module: ModuleType, reference: Reference, device: str, small: Small | None = None, *, runs: bool = True
) -> Probe:
    """Run the file on the device; on meta only for sizes, if a real run costs more."""
    origin = reference.origin
    with torch.random.fork_rng(), torch.device(device), torch.no_grad():
        with small or contextlib.nullcontext():
            values, distribution, model = _made(module, origin)
        state = {k: v.to(device) for k, v in model.state_dict().items()}
        arguments = specs_of(values, argument_names(model.forward, len(values)), distribution)
        states = _state_specs(state, {name for name, _ in model.named_parameters()})
        if elements_of((*arguments, *states)) <= CHEAPER_REAL:
            if device == "meta" and runs:
                return _probe(module, reference, "cpu")
        elif small is not None and runs:
            small.refused = True
            raise TaskError(f"{origin}: not small")
        with shapes_alone():
            result = called(model, f"{origin}: Model.forward()", *values) if runs else None
    return Probe(
        arguments=arguments,
        state=states,
        outputs=output_specs(result),
        device=device,
        training=model.training,
        ran=runs,
    )


def _made(
    module: ModuleType, origin: str
) -> tuple[list[Any], Callable[[torch.Tensor], Distribution], torch.nn.Module]:
    """Make the inputs, say how each is distributed, and make the module."""
    seed_torch(0)
    with Recogniser() as recogniser:
        values = inputs_of(module, origin)
    with torch.device("cpu"):
        init = init_of(module, origin)
    model = called(module.Model, f"{origin}: Model(*get_init_inputs())", *init)
    if not isinstance(model, torch.nn.Module):
        raise TaskError(f"{origin}: Model makes a {type(model).__name__}; expected a torch.nn.Module")
    called(lambda: materialised(model, lambda: values), f"{origin}: Model.forward()")
    return values, recogniser.distribution, model


def _state_specs(state: Mapping[str, torch.Tensor], learnt: set[str]) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=name,
            shape=tuple(value.shape),
            dtype=dtype_name(value.dtype),
            distribution=Distribution(kind="normal" if name in learnt else "given"),
        )
        for name, value in state.items()
    )


def _argument_specs(module: ModuleType, reference: Reference) -> tuple[Spec, ...] | None:
    try:
        values = shaped_inputs(module, reference.origin)
    except TaskError:
        return None
    return specs_of(
        values, [f"argument{i}" for i in range(len(values))], lambda _: Distribution(kind="given")
    )


def _is_scalar(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(v, Scalar) for v in value)
    return isinstance(value, Scalar)
