"""Fake candidates that contain their own outcome, and a judge that reads it: tests the search without a machine."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from ..languages import Availability, Kernel
from ..records import (
    Build,
    BuildStatus,
    Candidate,
    CheckStatus,
    Configuration,
    Decision,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    ModelledTime,
    Reference,
    Scalar,
    SourceFile,
    Space,
    Task,
    TensorSpec,
    Verdict,
    Workload,
    WorkloadDecision,
)  # fmt: skip

BASELINE_US = 100.0
"""The planted time of the native op."""


def planted_task(name: str = "planted", workloads: Mapping[str, int] | None = None) -> Task:
    """Return a task that is never run, its search workloads by name and size."""
    reference = SourceFile(path="reference.py", text="def run(x):\n    return x\n")
    return Task(
        name=name,
        form="own",
        reference=Reference(files=(reference,), entry="reference.py:run", style="function"),
        workloads=tuple(_workload(n, size) for n, size in (workloads or {"n=4": 4}).items()),
    )


def _workload(name: str, size: int) -> Workload:
    tensor = TensorSpec(name="x", shape=(size,), dtype="float32")
    return Workload(name=name, arguments=(tensor,), outputs=(tensor,))


def planted_candidate(
    time_us: float | Mapping[str, float],
    *,
    fault: str = "",
    language: str = "planted",
    parameters: dict[str, Scalar] | None = None,
) -> Candidate:
    """Return a candidate that takes `time_us`, or fails at `build`, `verify`, `vet` or `accept`.

    Times may be given workload by workload. With the fault `executed` nothing times it, and the time is modelled;
    `executed-accept` is found wrong in full.

    Example:
        >>> planted_candidate(50.0).sources[0].text
        '50.0  '
    """
    named = " ".join(f"{k}={v}" for k, v in (parameters or {}).items())
    times = ",".join(f"{k}:{v}" for k, v in time_us.items()) if isinstance(time_us, Mapping) else str(time_us)
    return Candidate(
        sources=(SourceFile(path="planted.txt", text=f"{times} {fault} {named}"),),
        language=language,
        entry="planted.txt:run",
        parameters=parameters or {},
        proposer="planted",
    )


class PlantedLanguage:
    """A language whose builds are instant, and fail if the candidate says so."""

    name = "planted"

    def __init__(self, toolchain: str = "planted 1", build_s: float = 0.0) -> None:
        self._toolchain = toolchain
        self._build_s = build_s
        self.builds = 0

    def available(self) -> Availability:
        """Always available."""
        return Availability(True, self._toolchain)

    def toolchain(self) -> str:
        """Return the argument."""
        return self._toolchain

    def timeable(self, device: str) -> bool:
        """Report that times are meaningful."""
        del device
        return True

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Fail if the candidate's fault is `build`."""
        del deadline_s
        self.builds += 1
        _take(self._build_s)
        if _fault(candidate) == "build":
            return Build(status=BuildStatus.FAILED, diagnostics="planted.txt:1: error: as planted")
        return Build(status=BuildStatus.OK, artefact="planted", toolchain=self._toolchain)

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Return a kernel that returns its arguments."""
        del candidate, artefact, outputs
        return lambda *arguments: arguments


class PlantedJudge:
    """Screens and accepts by the outcome in the candidate; counts its calls."""

    harness = "planted 1"

    def __init__(self, *, screen_s: float = 0.0, device_s: float = 0.5, bound_us: float = 10.0) -> None:
        self._screen_s = screen_s
        self._device_s = device_s
        self._bound_us = bound_us
        self.precomputed = 0
        self.screened: list[str] = []
        self.vetted: list[str] = []
        self.accepted: list[str] = []
        self.widened: list[str] = []
        self.asked: list[tuple[str, tuple[str, ...], int]] = []
        """Key, workloads and `tried` of every acceptance."""

    def precompute(self) -> None:
        """Count the call; nothing takes time here."""
        self.precomputed += 1

    def screen(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Verify and time it as planted; a gain is `inconclusive` until it is accepted."""
        del deadline_s
        _take(self._screen_s)
        self.screened.append(candidate.key)
        return self._evaluation(candidate, build, "screen")

    def vet(self, candidate: Candidate, build: Build, *, deadline_s: float = math.inf) -> Evaluation:
        """Reject a candidate whose fault is `vet` or `accept` and time nothing."""
        del deadline_s
        self.vetted.append(candidate.key)
        return self._evaluation(candidate, build, "full").model_copy(update={"device_s": 0.0})

    def accept(
        self,
        candidate: Candidate,
        build: Build,
        *,
        workloads: Sequence[str] = (),
        tried: int = 1,
        deadline_s: float = math.inf,
    ) -> Evaluation:
        """Accept a candidate that is faster on the workloads, unless its fault is `accept`."""
        del deadline_s
        self.accepted.append(candidate.key)
        self.asked.append((candidate.key, tuple(workloads), tried))
        return self._evaluation(candidate, build, "full", workloads)

    def widen(self, accepted: Evaluation, *, deadline_s: float = math.inf) -> Evaluation:
        """Return it as it is, and count the call: no other sizes are planted."""
        del deadline_s
        self.widened.append(accepted.candidate.key)
        return accepted

    def _evaluation(
        self, candidate: Candidate, build: Build, stage: str, workloads: Sequence[str] = ()
    ) -> Evaluation:
        fault = _fault(candidate)
        failed = fault == "verify" or (fault in {"vet", "accept", "executed-accept"} and stage == "full")
        if fault.startswith("executed") and not failed:
            return _executed(candidate, build, stage)
        finding = Finding(check="correct", status=CheckStatus.FAIL if failed else CheckStatus.PASS)
        verdict = Verdict(
            candidate=candidate.key, findings=(finding,), failure="correct" if failed else "", seeds=(1,)
        )
        return Evaluation(
            candidate=candidate,
            build=build,
            verdict=verdict,
            decision=self._decision(candidate, stage, failed, workloads),
            stage="verify" if failed and stage == "screen" else stage,
            device_s=self._device_s,
            time_s=self._device_s,
        )

    def _decision(self, candidate: Candidate, stage: str, failed: bool, asked: Sequence[str]) -> Decision:
        if failed:
            return Decision(
                candidate=candidate.key, status=DecisionStatus.REJECTED, reason="correct: as planted"
            )
        text = candidate.sources[0].text.split()[0]
        named = dict(part.split(":") for part in text.split(",")) if ":" in text else {}
        times = {name: float(t) for name, t in named.items() if name in asked or not asked}
        time_us = geometric_mean(times.values()) if times else float(text)
        better = DecisionStatus.IMPROVED if stage == "full" else DecisionStatus.INCONCLUSIVE
        return Decision(
            candidate=candidate.key,
            status=better if time_us < BASELINE_US / 1.02 else DecisionStatus.SLOWER,
            reason="as planted",
            baseline="eager",
            speedup=_speedup(time_us),
            workloads=tuple(
                WorkloadDecision(
                    workload=name,
                    speedup=_speedup(t),
                    time_us=t,
                    baseline_us=BASELINE_US,
                    baseline="eager",
                    bound_us=self._bound_us,
                )
                for name, t in times.items()
            ),
            time_us=time_us,
            bound_us=self._bound_us,
            confirmed=stage == "full",
        )


def _executed(candidate: Candidate, build: Build, stage: str) -> Evaluation:
    """Return the evaluation of a candidate that is right and that nothing here can time."""
    time_us = float(candidate.sources[0].text.split()[0])
    timed = Finding(check="timed", status=CheckStatus.UNKNOWN, message="as planted")
    decision = Decision(
        candidate=candidate.key, status=DecisionStatus.UNKNOWN, reason="timed could not be checked"
    )
    model = ModelledTime(
        device="a planted GPU", low_us=time_us / 2, high_us=time_us * 2, term="dram", terms_us={}, occupancy=1.0,
        limited_by="threads", operations_per_byte=1.0, ridge=1.0, workload="n=4",
    )  # fmt: skip
    return Evaluation(
        candidate=candidate, build=build, verdict=Verdict(candidate=candidate.key, findings=(timed,), seeds=(1,)),
        decision=decision, stage=stage, modelled=(model,),
    )  # fmt: skip


def _speedup(time_us: float) -> Interval:
    ratio = BASELINE_US / time_us
    return Interval(median=ratio, low=ratio * 0.99, high=ratio * 1.01)


class PlantedTemplate:
    """A template over a space whose costs are a function of the configuration; None means a failure."""

    language = "planted"

    def __init__(
        self,
        name: str,
        space: Space,
        cost_us: Callable[[Configuration], float | None],
        default: Configuration,
    ) -> None:
        self.name = name
        self.space = space
        self._cost_us = cost_us
        self._default = default

    def render(self, configuration: Configuration) -> Candidate:
        """Return the candidate of one configuration."""
        cost = self._cost_us(configuration)
        fault = "build" if cost is None else ""
        candidate = planted_candidate(cost or 0.0, fault=fault, parameters=dict(configuration))
        return candidate.model_copy(update={"template": self.name})

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        return self._default


def _fault(candidate: Candidate) -> str:
    words = candidate.sources[0].text.split()[1:2]
    return words[0] if words and "=" not in words[0] else ""


def _take(seconds: float) -> None:
    """Sleep; no time at all is not even an offer of the core to others, which on a busy machine takes milliseconds."""
    if seconds:
        time.sleep(seconds)
