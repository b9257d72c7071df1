"""Timings, findings and stages of one judgement → the records that are kept of it."""

from collections.abc import Callable, Sequence

from ...devices import Device
from ...languages import executed_on, executes, get_language
from ...records import (
    Build,
    Candidate,
    CheckStatus,
    Decision,
    Evaluation,
    Finding,
    ModelledTime,
    Reference,
    Timing,
    Verdict,
)  # fmt: skip
from ._stages import Stages

TIMED = "timed"
"""The check that is unknown of a candidate that this device does not run."""
_UNKNOWN = CheckStatus.UNKNOWN
_TIMED = ("prescreen", "screen", "measure", "confirm", "sizes", "refuter")
"""Stages that hold the device."""


def together(timing: Timing | None, confirmation: Timing | None) -> Timing | None:
    """Combine measurement and confirmation; `Block.phase` distinguishes them."""
    if timing is None or confirmation is None:
        return timing
    variants, blocks = timing.variants + confirmation.variants, timing.blocks + confirmation.blocks
    classes = timing.classes | confirmation.classes
    shared_us = max(timing.shared_us, confirmation.shared_us)
    others = max(timing.others, confirmation.others)
    joint = {
        "variants": variants, "blocks": blocks, "classes": classes, "shared_us": shared_us, "others": others
    }  # fmt: skip
    return timing.model_copy(update=joint)


def joined(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Add findings to a verdict; a later finding of a check replaces an earlier one that passed."""
    new = {f.check: f for f in findings}
    kept = tuple(f for f in verdict.findings if f.check not in new or f.status is not CheckStatus.PASS)
    every = kept + tuple(f for f in findings if f.check not in {k.check for k in kept})
    failure = verdict.failure or next((f.check for f in findings if f.status is CheckStatus.FAIL), "")
    return verdict.model_copy(update={"findings": every, "failure": failure})


def without_device(device: Device, reference: Reference) -> Callable[[Candidate], Finding | None]:
    """Return what tells of a candidate why no time of it means anything on a device; None where times do.

    An interpreter or a model of another device may run the candidate, or the reference.
    """
    executed = "the reference's kernels are executed on the CPU, so that nothing can be timed against it"

    def untimed(candidate: Candidate) -> Finding | None:
        language = get_language(candidate.language)
        if language.timeable(device.kind):
            return Finding(check=TIMED, status=_UNKNOWN, message=executed) if reference.executed else None
        how = "executed" if executes(candidate.language) or executed_on(language) else "interpreted"
        said = f"{candidate.language} is {how} on {device.kind}, so that no time of it means anything"
        return Finding(check=TIMED, status=_UNKNOWN, message=said)

    return untimed


def evaluation_of(
    candidate: Candidate,
    build: Build,
    verdict: Verdict,
    timing: Timing | None,
    decision: Decision,
    stage: str,
    stages: Stages,
    modelled: tuple[ModelledTime, ...] = (),
) -> Evaluation:
    """Return the evaluation of a candidate, with the seconds of each stage."""
    return Evaluation(
        candidate=candidate,
        build=build,
        verdict=verdict,
        timing=timing,
        decision=decision,
        stage=stage,
        device_s=sum(stages.seconds.get(s, 0.0) for s in _TIMED),
        time_s=sum(stages.seconds.values()) + build.time_s,
        stages_s={"build": build.time_s, **stages.seconds},
        modelled=modelled,
    )
