"""Run the checks in order, cheapest first, and stop at the first that is violated."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from ..errors import WorkerError
from ..languages import get_language, not_run
from ..records import Build, Candidate, CheckStatus, Finding, Split, TensorSpec, Verdict, Workload
from ..sandbox import FailureKind, Pool, WorkerFailure
from ..system.waiting import PatientDeadline
from ..tasks import Problem
from ._case import Case, Oracle, Seeds
from ._observe import observe
from ._protocol import Depth, Probe, blamed, failed, passed, unknown
from ._triage import triage
from ._trial import Trial
from .checks import CHECKS, LAST, OF_RANDOM, PROBES, SWEEPS
from .checks.sanitised import Sanitised, named_by_line

LOADS, RUNS, SUPPORTED, FINISHED = "loads", "runs", "supported", "finished"
"""Checks of the driver itself; they cannot be switched off."""
_PLACES = {Split.SEARCH: "", Split.HIDDEN: "on a hidden workload: ", Split.CONFIRM: "on a hidden workload: "}


@dataclass
class _Ledger:
    """Findings so far, one a check, the worst figures kept."""

    findings: dict[str, Finding] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return any(f.status is CheckStatus.FAIL for f in self.findings.values())

    def add(self, found: Finding) -> None:
        known = self.findings.get(found.check)
        if known is not None and known.status is CheckStatus.UNKNOWN and found.status is CheckStatus.PASS:
            return
        if known is not None and known.status is found.status is CheckStatus.PASS:
            figures = {k: max(v, known.figures.get(k, v)) for k, v in found.figures.items()}
            found = found.model_copy(update={"figures": {**known.figures, **figures}})
        self.findings[found.check] = found


def precompute(oracle: Oracle) -> None:
    """Make the case that a screening begins with, so that the verification finds it made.

    A screening makes it in any case: what can be done meanwhile, such as building the candidate, costs no time then.
    """
    oracle.case(_by_size(oracle.task.split(Split.SEARCH))[0], oracle.screen_seed)


def verify(
    problem: Problem,
    candidate: Candidate,
    build: Build,
    *,
    pool: Pool,
    depth: Depth = "full",
    seeds: Sequence[int] | None = None,
    deadline_s: float = 60.0,
    most_s: float = math.inf,
    oracle: Oracle | None = None,
    disabled: frozenset[str] = frozenset(),
    on_right: Callable[[], None] = lambda: None,
    hopeless_us: Mapping[str, float] = MappingProxyType({}),
) -> Verdict:
    """Find out whether a built candidate is right and honest.

    Args:
        problem: What it claims to compute.
        candidate: What is on trial.
        build: Its build, status ok.
        pool: Where workers come from.
        depth: `screen` for the search workloads and the cheap probes under seeds shared by a session;
            `full` for every split and every probe under fresh seeds.
        seeds: The seeds of an earlier verdict, to replay it; drawn secretly after loading by default.
        deadline_s: Seconds for the whole, without those that it waits for a processor, which count from three times as
            many; what is not done by then is unknown.
        most_s: Seconds by the clock, waiting or not.
        oracle: Expected values to share between calls on the same problem.
        disabled: Names of checks to leave out: in tests of the harness itself, and where only a refusal counts.
        on_right: Called when it was right on a first workload: what is worth beginning then, and not for who is wrong.
        hopeless_us: Of a screening, by workload: who is right but takes longer for a call is asked nothing more, as
            that would take longest where it matters least. Nobody is accepted without all of it.
    """
    oracle = oracle or Oracle(problem)
    drawn = Seeds(seeds if seeds is not None or depth == "full" else [oracle.screen_seed])
    ledger = _Ledger()
    ledger.add(triage(candidate))
    with Trial(
        oracle, candidate, build, pool, deadline=PatientDeadline(deadline_s, most_s), seeds=drawn
    ) as trial:
        try:
            for found in _examine(trial, depth, disabled, ledger, on_right, hopeless_us):
                ledger.add(found)
                if ledger.over:
                    break
        except WorkerError as error:
            ledger.add(unknown(LOADS, str(error)))
    return _verdict(candidate, ledger, drawn.drawn)


@contextmanager
def elsewhere(
    problem: Problem, candidate: Candidate, build: Build, *, pool: Pool, deadline_s: float = 60.0
) -> Iterator[Callable[[Workload], Verdict]]:
    """Yield what tells whether a candidate is right on workloads that are none of the task's: other sizes of it.

    Each is looked at once, under a fresh secret seed, with the checks that every workload gets in `verify`.
    """
    drawn, oracle = Seeds(), Oracle(problem)

    def look(workload: Workload) -> Verdict:
        ledger, before = _Ledger(), len(drawn.drawn)
        try:
            case = oracle.case(workload, drawn.draw())
            if not case.usable:
                ledger.add(unknown("correct", "the native op itself is not accurate enough here"))
            for found in _calls(trial, case, frozenset(), ledger):
                ledger.add(found)
                if ledger.over:
                    break
        except WorkerError as error:
            ledger.add(unknown(LOADS, str(error)))
        return _verdict(candidate, ledger, drawn.drawn[before:])

    with Trial(
        oracle, candidate, build, pool, deadline=PatientDeadline(deadline_s, deadline_s), seeds=drawn
    ) as trial:
        yield look


def _verdict(candidate: Candidate, ledger: _Ledger, seeds: Sequence[int]) -> Verdict:
    findings = tuple(ledger.findings.values())
    return Verdict(
        candidate=candidate.key,
        findings=findings,
        unsupported=tuple(ledger.unsupported),
        failure=next((f.check for f in findings if f.status is CheckStatus.FAIL), ""),
        seeds=tuple(seeds),
    )


def _examine(
    trial: Trial,
    depth: Depth,
    disabled: frozenset[str],
    ledger: _Ledger,
    on_right: Callable[[], None],
    hopeless_us: Mapping[str, float],
) -> Iterator[Finding]:
    """Yield findings in order; the caller stops at the first violation."""
    task = trial.problem.task
    search = _by_size(task.split(Split.SEARCH))
    if reason := not_run(get_language(trial.candidate.language)):
        yield unknown(LOADS, reason)
        return
    try:
        trial.worker(search[0])
    except WorkerFailure as failure:
        yield blamed(trial, LOADS, failure)
        return
    yield passed(LOADS)
    seed = trial.seeds.draw()
    first: Case | None = None
    hidden = _hidden(trial) if depth == "full" else {}
    for workload in search:
        case = trial.oracle.case(workload, seed)
        with_line = partial(named_by_line, trial, case) if depth == "full" else _as_it_is
        yield from map(with_line, _calls(trial, case, disabled, ledger))
        if first is None and case.usable and workload.name not in ledger.unsupported:
            first = case
            on_right()
            refusing = {name: hidden.pop(name) for name in list(hidden) if trial.oracle.refusals[name]}
            yield from _hidden_calls(trial, refusing, disabled, ledger)
            asked = [p for p in PROBES if p.depth == "screen" or depth == "full"]
            if depth == "screen" and trial.least_us > hopeless_us.get(workload.name, math.inf):
                asked = []
            asked = [p for p in asked if not isinstance(p, Sanitised) or trial.executes]
            if task.contract.stochastic:
                asked = [p for p in asked if p.name in OF_RANDOM]
            yield from map(with_line, _probes(trial, case, asked, disabled))
    if len(ledger.unsupported) == len(search):
        yield failed(SUPPORTED, "it declines every search workload; the native op would serve all of them")
    elif first is None:
        yield unknown("correct", "the native op itself is not accurate enough on any search workload")
    yield from _hidden_calls(trial, hidden, disabled, ledger)
    if first is not None:
        yield from _probes(trial, first, LAST, disabled)
    yield passed(FINISHED)


def _hidden(trial: Trial) -> dict[str, tuple[Workload, int]]:
    """Return the hidden workloads by name, each with a seed: first those that refused most, then by size."""
    task = trial.problem.task
    found = _by_size((*task.split(Split.HIDDEN), *task.split(Split.CONFIRM)))
    seeds = {workload.name: trial.seeds.draw() for workload in found}
    found.sort(key=lambda w: -trial.oracle.refusals[w.name])
    return {workload.name: (workload, seeds[workload.name]) for workload in found}


def _hidden_calls(
    trial: Trial, hidden: Mapping[str, tuple[Workload, int]], disabled: frozenset[str], ledger: _Ledger
) -> Iterator[Finding]:
    """Call the candidate once on each hidden workload, and note which refuse it."""
    for workload, seed in hidden.values():
        for found in _calls(trial, trial.oracle.case(workload, seed), disabled, ledger):
            trial.oracle.refusals[workload.name] += found.status is CheckStatus.FAIL
            yield found


def _calls(trial: Trial, case: Case, disabled: frozenset[str], ledger: _Ledger) -> Iterator[Finding]:
    """Call the candidate once on a case and let every check look."""
    workload = case.workload
    if not case.usable:
        return
    if trial.remaining_s <= 0:
        yield unknown(FINISHED, "the deadline of the verification came first")
        return
    try:
        seen = observe(trial, case)
    except WorkerFailure as failure:
        if failure.kind is FailureKind.UNSUPPORTED:
            ledger.unsupported.append(workload.name)
            return
        yield _placed(blamed(trial, RUNS, failure), workload)
        return
    yield passed(RUNS)
    for check in CHECKS:
        if check.name not in disabled:
            yield _placed(trial.believed(check.examine(seen)), workload)
    trial.right()
    for found in _probes(trial, case, SWEEPS, disabled):
        yield _placed(found, workload)


def _probes(trial: Trial, case: Case, probes: Sequence[Probe], disabled: frozenset[str]) -> Iterator[Finding]:
    for probe in probes:
        if probe.name in disabled:
            continue
        if trial.remaining_s <= 0:
            yield unknown(probe.name, "the deadline of the verification came first")
            continue
        try:
            yield probe.probe(trial, case)
        except WorkerFailure as failure:
            yield blamed(trial, probe.name, failure)
            return


def _as_it_is(found: Finding) -> Finding:
    return found


def _placed(found: Finding, workload: Workload) -> Finding:
    """Say where it was found, without telling what a hidden workload is."""
    if found.status is CheckStatus.PASS:
        return found
    name = workload.name if workload.split is Split.SEARCH else workload.split.value
    return found.model_copy(update={"workload": name, "message": _PLACES[workload.split] + found.message})


def _by_size(workloads: Sequence[Workload]) -> list[Workload]:
    """Sort by elements in and out, so that a wrong candidate dies on the cheapest."""

    def size(workload: Workload) -> int:
        specs = (*workload.arguments, *workload.outputs)
        return sum(math.prod(s.shape) for s in specs if isinstance(s, TensorSpec))

    return sorted(workloads, key=size)
