"""`kernelwright optimize MODEL`: whole models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._common import Common, program, speedup_text

if TYPE_CHECKING:
    from ..models import ModelResult, SizedResult
    from ..records import Numerics

_MINUTES = 10.0


def is_model_target(target: str, *, whole: bool, training: bool = False) -> bool:
    """Tell whether a target is a whole model.

    Raises:
        InputError: `whole` or `training` asks for a model where none can be.
    """
    from ..errors import InputError
    from ..models import is_model

    found = is_model(target, whole=whole)
    if whole and not found:
        raise InputError(
            f"{target!r} is no whole model; expected a file with a function build() or with Model and get_inputs()"
            if Path(target.partition(":")[0]).is_file()
            else f"{target!r} is no whole model, and no such file exists; name file.py:build, a .pt2 archive or hf:NAME"
        )
    if training and not found:
        raise InputError(
            f"--training is for whole models, and {target!r} is an op; --backward takes it forward and backward"
        )
    return found


def only_for_ops(given: Mapping[str, object]) -> None:
    """Refuse flags that a whole model does not take; `given` has each by its name, empty where it was not given.

    Raises:
        InputError: one was given.
    """
    from ..errors import InputError

    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise InputError(
            f"{wrong[0]} is for single ops; a whole model takes --minutes, --device, --baseline, --proposer, "
            "--language, --numerics, --workload"
        )


def only_for_models(given: Mapping[str, object]) -> None:
    """Refuse flags that a single op does not take.

    Raises:
        InputError: one was given.
    """
    from ..errors import InputError

    if wrong := [name for name, value in given.items() if value]:
        raise InputError(f"{wrong[0]} is for whole models; an op's file declares its own workloads")


def model(
    target: str,
    *,
    minutes: float | None,
    device: str | None,
    baselines: Sequence[str] | None,
    proposers: Sequence[str] | None,
    languages: Sequence[str] | None,
    numerics: "Numerics | None",
    training: bool,
    optimizer: str | None = None,
    workloads: Sequence[str] = (),
    common: Common,
) -> int:
    """Optimise a whole model, at several sizes perhaps, or its training, and print what came of it."""
    from ..errors import InputError
    from ..models import optimize_model, optimize_sizes, optimize_training, sizes_of
    from ..records import Budget
    from ._console import reporting

    if optimizer is not None and not training:
        raise InputError("--optimizer is for steps of training; add --training")
    minutes = minutes or _MINUTES
    with reporting(common, Budget(minutes=minutes), resumes=False) as on_event:
        improve = optimize_training if training else optimize_model
        named = {"baselines": baselines, "proposers": proposers, "languages": languages}
        given: dict[str, Any] = {name: tuple(values) for name, values in named.items() if values}
        given |= {"minutes": minutes, "device": device, "store": common.folder, "on_event": on_event}
        given |= {"numerics": numerics} | ({"optimizer": optimizer} if optimizer else {})
        if workloads:
            sized = optimize_sizes(target, [sizes_of(text) for text in workloads], training=training, **given)
            print(sized.line() if common.json else sized_text(sized, common.again), flush=True)
            return 0
        result = improve(target, **given)
    print(result.line() if common.json else model_text(result, common.again), flush=True)
    return 0


def sized_text(result: "SizedResult", again: str = "") -> str:
    """Format the result of a model at several sizes for people."""
    head = "improved" if result.improved else "nothing better found"
    lines = [
        f"{result.model}: {head}, {speedup_text(result.speedup.model_dump())} of all calls together, by their weights"
    ]
    if result.reason:
        lines.append(f"  why       {result.reason}")
    for one in result.outcomes:
        sizes, found = ",".join(f"{name}={size}" for name, size in one.sizes.items()), one.result
        if found.improved and found.speedup:
            state = f"{speedup_text(found.speedup.model_dump())} against {found.baseline}, at these sizes and no others"
        else:
            state = f"native: {found.reason or found.decision}"
        lines.append(f"  sizes     {sizes}, {one.weight:.0%} of the calls: {state}")
    if result.improved:
        runs = [one.result.run for one in result.outcomes if one.result.improved]
        lines.append(
            f"  next      kernelwright.patch(model, {runs[0]!r}) in Python patches it at all of them"
        )
        lines += [
            f"            {program()} export {run} --to DIR{again}   (a package to import)" for run in runs
        ]
    return "\n".join(lines)


def model_text(result: "ModelResult", again: str = "") -> str:
    """Format the result of a model for people."""
    speedup = result.speedup.model_dump() if result.speedup else None
    against = f"{speedup_text(speedup)} against {result.baseline}" if speedup else str(result.decision)
    head = "improved, " if result.improved else "nothing better found; "
    lines = [f"{result.model}: {head}{against}"]
    if result.reason:
        lines.append(f"  why       {result.reason}")
    if result.ended:
        lines.append(f"  ended     {result.ended}")
    if result.numerics:
        lines.append(f"  numerics  {result.numerics}")
    if result.eager_speedup is not None and not result.trained:
        low, expected, high = result.expected
        lines.append(
            f"  forecast  {expected:.2f} times as fast as eager ({low:.2f} to {high:.2f}); "
            f"measured {result.eager_speedup:.2f}"
        )
    for region in result.regions:
        alone = f"{region.speedup:.2f}x alone" if region.speedup else "no kernel"
        state = "in the model" if region.kept else f"native: {region.reason}"
        lines.append(f"  region    {region.label} x{region.uses}: {alone}, {state}")
    for one in result.programs:
        took = f"{one.speedup:.2f}x, " if one.speedup is not None else ""
        peak = f"{one.peak_bytes / 1e6:.1f} MB at most" if one.peak_bytes is not None else "memory not known"
        lines.append(f"  memory    {one.what}: {took}{peak}{', in the model' if one.kept else ''}")
    if steps := result.steps:
        told = f"{speedup_text(steps.speedup.model_dump())} against {steps.baseline} with torch's"
        lines.append(
            f"  steps     with {steps.optimizer}: {steps.decision}, {told}{f'; {steps.reason}' if steps.reason else ''}"
        )
    if result.improved:
        lines.append(f"  next      kernelwright.patch(model, {result.run!r}) in Python")
        lines.append(f"            {program()} export {result.run} --to DIR{again}   (a package to import)")
        if result.pieces:
            lines.append('            torch.compile(model, backend="kernelwright") uses their kernels, too')
    if result.steps and result.steps.improved:
        lines.append("            kernelwright.models.OptimizerPatch(optimizer) in Python")
    return "\n".join(lines)
