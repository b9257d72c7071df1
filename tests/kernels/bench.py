"""From a function and example inputs to the library's loaded kernels, and their errors against float64."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from kernelwright.kernels._core import KernelTemplate, families
from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, Candidate, Configuration, TensorSpec, Workload
from kernelwright.tasks.capture import Graph, capture

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


@dataclass(eq=False)
class _Problem:
    """As much of a problem as capture needs."""

    function: Function

    def reference(self, workload: Workload) -> Function:
        return self.function


def workload_of(tensors: Sequence[torch.Tensor]) -> Workload:
    specs = (
        TensorSpec(name=f"x{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for i, t in enumerate(tensors)
    )
    return Workload(name="here", arguments=tuple(specs))


def graph_of(function: Function, tensors: Sequence[torch.Tensor]) -> Graph:
    return capture(_Problem(function), workload_of(tensors))  # type: ignore[arg-type]


def templates(
    family: str, function: Function, tensors: Sequence[torch.Tensor], language: str = "cpp"
) -> list[KernelTemplate]:
    """Return the family's templates for the function in one language."""
    found = next(f for f in families() if f.name == family)
    graph = graph_of(function, tensors)
    return [t for t in found.match(graph, workload_of(tensors)) if t.language == language]


def outputs_of(result: object) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)  # type: ignore[call-overload]


def load(candidate: Candidate) -> Callable[[Sequence[torch.Tensor], Function], tuple[torch.Tensor, ...]]:
    """Build the candidate and return a call that takes inputs and the reference, for the outputs' shapes."""
    language = get_language(candidate.language)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    assert build.artefact is not None

    def call(tensors: Sequence[torch.Tensor], function: Function) -> tuple[torch.Tensor, ...]:
        from pathlib import Path

        specs = tuple(
            TensorSpec(name=f"out{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
            for i, t in enumerate(outputs_of(function(*tensors)))
        )
        kernel = language.load(candidate, Path(build.artefact or ""), specs)
        return outputs_of(kernel(*tensors))

    return call


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


def double(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.double() if t.is_floating_point() else t for t in tensors]


def assert_near(
    results: Sequence[torch.Tensor], function: Function, tensors: Sequence[torch.Tensor], floor: float = 8.0
) -> None:
    """Assert the contract: at most 4 times the native op's error, or `floor` eps of the output's scale."""
    native, exact = outputs_of(function(*tensors)), outputs_of(function(*double(tensors)))
    assert len(results) == len(native)
    for result, given, true in zip(results, native, exact, strict=True):
        assert result.shape == given.shape and result.dtype == given.dtype
        assert torch.equal(result.isnan(), given.isnan())
        finite = true.isfinite() & given.isfinite()
        assert torch.equal(result[~finite].nan_to_num(), given[~finite].nan_to_num())
        if not finite.any():
            continue
        error = (result.double() - true)[finite].abs().max().item()
        own = (given.double() - true)[finite].abs().max().item()
        scale = true[finite].abs().max().item()
        allowed = max(4 * own, floor * torch.finfo(result.dtype).eps * scale)
        assert error <= allowed, f"error {error:.3g}, allowed {allowed:.3g}, shape {tuple(given.shape)}"


def check(
    family: str, function: Function, cases: Sequence[Sequence[torch.Tensor]], everything: bool = False
) -> None:
    """Match on the first case's sizes; the kernel must be right on every case's."""
    (template, *_) = templates(family, function, cases[0])
    for configuration in corners(template) if everything else [template.default()]:
        call = load(template.render(configuration))
        for tensors in cases:
            assert_near(call(tensors, function), function, tensors)


def check_language(language: str, function: Function, cases: Sequence[Sequence[torch.Tensor]]) -> None:
    """As `check`, for the family of kernels that is named by its language."""
    (template, *_) = templates(language, function, cases[0], language)
    call = load(template.render(template.default()))
    for tensors in cases:
        assert_near(call(tensors, function), function, tensors)
