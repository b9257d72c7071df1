"""Render, compile and run a template's kernels, and hold them against float64."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from kernelwright.kernels import KernelTemplate, match_all
from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, Configuration, TensorSpec, Workload
from kernelwright.tasks.capture import capture

Function = Callable[..., object]


@dataclass(eq=False)
class FakeProblem:
    """As much of a problem as capture needs."""

    function: Function

    def reference(self, workload: Workload) -> Function:
        return self.function

    def inputs(self, workload: Workload, seed: int) -> list[torch.Tensor]:
        shapes = [a for a in workload.arguments if isinstance(a, TensorSpec)]
        return [torch.ones(a.shape, dtype=getattr(torch, a.dtype)) for a in shapes]


def spec(name: str, tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(name=name, shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))


def state_of(function: Function) -> dict[str, torch.Tensor]:
    return dict(function.state_dict()) if isinstance(function, nn.Module) else {}


def flat(result: object) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)  # type: ignore[call-overload]


def templates(function: Function, inputs: Sequence[torch.Tensor]) -> list[KernelTemplate]:
    """Return what the library offers in C++ for a function on some inputs."""
    workload = Workload(
        name="here",
        arguments=tuple(spec(f"x{i}", t) for i, t in enumerate(inputs)),
        state=tuple(spec(name, t) for name, t in state_of(function).items()),
    )
    graph = capture(FakeProblem(function), workload)  # type: ignore[arg-type]
    return [t for t in match_all(graph, workload) if t.language == "cpp"]


def build(template: KernelTemplate, configuration: Configuration) -> Callable[..., object]:
    """Compile one configuration; the result is called with outputs, then everything else."""
    candidate = template.render(configuration)
    language = get_language("cpp")
    done = language.build(candidate)
    assert done.status is BuildStatus.OK, done.diagnostics
    assert "warning" not in done.diagnostics, done.diagnostics

    def call(outputs: Sequence[torch.Tensor], *arguments: torch.Tensor) -> object:
        specs = tuple(spec(f"out{i}", t) for i, t in enumerate(outputs))
        return language.load(candidate, Path(done.artefact or ""), specs)(*arguments)

    return call


def check(kernel: Callable[..., object], function: Function, inputs: Sequence[torch.Tensor]) -> None:
    """Hold outputs against float64: 4 times the native op's error or 8 epsilon of the scale at most."""
    native = flat(function(*inputs))
    wide = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    exact = flat(wide(*(t.double() if t.is_floating_point() else t for t in inputs)))
    results = flat(kernel(native, *inputs, *state_of(function).values()))
    for got, own, right in zip(results, native, exact, strict=True):
        assert (got.shape, got.dtype) == (own.shape, own.dtype)
        if not got.dtype.is_floating_point:
            assert torch.equal(got, own)
            continue
        assert torch.equal(got.isnan(), own.isnan())
        assert torch.equal(got.isinf(), own.isinf())
        finite = right.isfinite() & own.isfinite()
        if not finite.any():
            continue
        allowed = 4 * (own.double() - right)[finite].abs().max()
        floor = 8 * torch.finfo(got.dtype).eps * right[finite].abs().max()
        error = (got.double() - right)[finite].abs().max()
        assert error <= max(allowed, floor), f"{[tuple(t.shape) for t in inputs]}: error {error:.3g}"


def check_template(function: Function, cases: Sequence[Sequence[torch.Tensor]], *, family: str) -> None:
    """Match on the first case, then check the default and one other configuration on every case."""
    found = templates(function, cases[0])
    assert [t.name for t in found][:1] == [family]
    template = found[0]
    other = list(template.space.configurations())[-1]
    for configuration in (template.default(), other):
        kernel = build(template, configuration)
        for case in cases:
            check(kernel, function, case)
