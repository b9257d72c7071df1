"""From a function and example inputs to a family's loaded kernels, and their errors against float64."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from kernelwright.languages import get_language
from kernelwright.ops import KernelTemplate, match_all
from kernelwright.ops._parametric import matchers
from kernelwright.records import BuildStatus, Configuration, TensorSpec, Workload
from kernelwright.tasks.capture import recorded

Function = Callable[..., object]
Call = Callable[[Function, Sequence[Tensor]], tuple[Tensor, ...]]
"""Takes the reference, for its state and the outputs' shapes, and inputs."""


@dataclass(eq=False)
class FakeProblem:
    """As much of a problem as is asked for to record its reference."""

    function: Function

    def reference(self, workload: Workload) -> Function:
        return self.function

    def inputs(self, workload: Workload, seed: int) -> list[Tensor]:
        shapes = [a for a in workload.arguments if isinstance(a, TensorSpec)]
        return [torch.ones(a.shape, dtype=getattr(torch, a.dtype)) for a in shapes]


def spec(name: str, tensor: Tensor) -> TensorSpec:
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))


def state_of(function: Function) -> dict[str, Tensor]:
    return dict(function.state_dict()) if isinstance(function, nn.Module) else {}


def flat(result: object) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)  # type: ignore[call-overload]  # of any function


def templates(
    family: str, function: Function, inputs: Sequence[Tensor], language: str = "cpp"
) -> list[KernelTemplate]:
    """Return what a family, or the whole library if none is named, offers for a function on some inputs."""
    workload = Workload(
        name="here",
        arguments=tuple(spec(f"x{i}", t) for i, t in enumerate(inputs)),
        state=tuple(spec(name, t) for name, t in state_of(function).items()),
    )
    graph = recorded(FakeProblem(function), workload)  # type: ignore[arg-type]  # it has what is asked for
    match = matchers()[family] if family else match_all
    return [t for t in match(graph, workload) if t.language == language]


def load(template: KernelTemplate, configuration: Configuration | None = None) -> Call:
    """Build one configuration, without a warning; the default one if none is given."""
    candidate = template.render(configuration or template.default())
    language = get_language(candidate.language)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    assert "warning" not in build.diagnostics, build.diagnostics

    def call(function: Function, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        outputs = tuple(spec(f"out{i}", t) for i, t in enumerate(flat(function(*inputs))))
        kernel = language.load(candidate, Path(build.artefact or ""), outputs)
        return flat(kernel(*inputs, *state_of(function).values()))

    return call


def hold(call: Call, function: Function, inputs: Sequence[Tensor]) -> None:
    """Hold outputs against float64: 4 times the native op's error or 8 epsilon of the scale at most."""
    native = flat(function(*inputs))
    wide = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    exact = flat(wide(*(t.double() if t.is_floating_point() else t for t in inputs)))
    for got, own, right in zip(call(function, inputs), native, exact, strict=True):
        assert (got.shape, got.dtype) == (own.shape, own.dtype)
        if not got.dtype.is_floating_point:
            assert torch.equal(got, own)
            continue
        assert torch.equal(got.isnan(), own.isnan())
        finite = right.isfinite() & own.isfinite()
        assert torch.equal(got[~finite].nan_to_num(), own[~finite].nan_to_num())
        if not finite.any():
            continue
        allowed = 4 * (own.double() - right)[finite].abs().max()
        floor = 8 * torch.finfo(got.dtype).eps * right[finite].abs().max()
        error = (got.double() - right)[finite].abs().max()
        assert error <= max(allowed, floor), f"{[tuple(t.shape) for t in inputs]}: error {error:.3g}"


def ends(template: KernelTemplate) -> list[Configuration]:
    """Return the default configuration and the last one."""
    return [template.default(), list(template.space.configurations())[-1]]


def corners(template: KernelTemplate) -> Iterator[Configuration]:
    """Yield the default and the first and last value of every parameter together."""
    seen = []
    for choice in (
        template.default(),
        *({p.name: p.values[i] for p in template.space.parameters} for i in (0, -1)),
    ):
        if choice not in seen and template.space.allows(choice):
            seen.append(choice)
            yield choice


def check(
    family: str,
    function: Function,
    cases: Sequence[Sequence[Tensor]],
    *,
    language: str = "cpp",
    name: str = "",
    chosen: Callable[[KernelTemplate], Iterable[Configuration]] = lambda template: [template.default()],
) -> None:
    """Match on the first case's sizes; the kernel must be right on every case's, in every chosen configuration."""
    (template, *_) = templates(family, function, cases[0], language)
    assert template.name == (name or template.name)
    for configuration in chosen(template):
        kernel = load(template, configuration)
        for case in cases:
            hold(kernel, function, case)
