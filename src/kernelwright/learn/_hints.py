"""Orders a template's configurations by their results in earlier runs of the store.

Covers: templates seen before, on the same task or another, on this device or another.
Does not cover: correctness or speed: a hint only suggests what to try first, and every candidate is verified
and measured as if there were none.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..records import Candidate, Configuration, DecisionStatus, Evaluation, Record, Run
from ..store import Store
from ._size import elements_of

EVENT = "hints"
"""The event that holds the hints of a run."""
_MOST_RUNS = 20
_MOST_HINTS = 8
"""Most hints for one template."""
_FAILED = math.log(4.0)
"""A failure counts as four times slower than the best."""
_DOUBT = 0.5
"""Weight, in runs, of the prior that a configuration is average, so that a single run is trusted less."""
_OTHER_DEVICE = 0.5
_SIZE_SCALE = 3.0
"""Factors of e in size over which similarity falls by e."""


class Hint(Record):
    """Results of one configuration of a template in earlier runs."""

    template: str
    """The template's name."""
    language: str
    """The template's language."""
    configuration: Configuration
    """The configuration."""
    cost: float
    """Its time divided by the template's best in the same run, averaged over runs; 1 is the best."""
    runs: int
    """How many runs tried it."""


def hints_of(store: Store, run: Run) -> tuple[Hint, ...]:
    """Return the hints of earlier runs for a run, for each template the best first.

    A resumed run keeps the hints it started with, regardless of what was learnt since.
    """
    begun = [e["hints"] for e in store.events(run.id) if e["event"] == EVENT]
    if begun and isinstance(begun[0], list):
        return tuple(Hint.model_validate(hint) for hint in begun[0])
    elements = elements_of(store.task(run.task))
    seen: dict[str, list[_Trace]] = defaultdict(list)
    for earlier in [r for r in store.runs() if r.id != run.id][:_MOST_RUNS]:
        distance = abs(math.log(elements_of(store.task(earlier.task)) / elements))
        weight = math.exp(-distance / _SIZE_SCALE) * (1.0 if earlier.device == run.device else _OTHER_DEVICE)
        for evaluation, cost in _relative(store.evaluations(earlier.id)):
            seen[_name(evaluation.candidate)].append(_Trace(evaluation.candidate, weight, cost))
    return _best(_hint(traces) for traces in seen.values())


class _Trace(NamedTuple):
    candidate: Candidate
    weight: float
    log_cost: float


def _relative(evaluations: Iterable[Evaluation]) -> Iterator[tuple[Evaluation, float]]:
    """Yield the evaluations of templates, each with the logarithm of its time relative to its template's best."""
    by_template: dict[tuple[str, str], list[Evaluation]] = defaultdict(list)
    for evaluation in evaluations:
        candidate = evaluation.candidate
        if candidate.template is not None and evaluation.decision.status is not DecisionStatus.UNKNOWN:
            by_template[candidate.template, candidate.language].append(evaluation)
    for group in by_template.values():
        costs = [_cost(e) for e in group]
        worked = [c for c in costs if c is not None]
        for evaluation, cost in zip(group, costs, strict=True):
            yield evaluation, _FAILED if cost is None else min(cost - min(worked), _FAILED)


def _cost(evaluation: Evaluation) -> float | None:
    """Return the logarithm of the time relative to the baseline's, in which machine drift cancels."""
    decision = evaluation.decision
    if decision.status is DecisionStatus.REJECTED or decision.speedup is None:
        return None
    return -math.log(decision.speedup.median)


def _hint(traces: Sequence[_Trace]) -> Hint:
    weight = sum(t.weight for t in traces)
    mean = (sum(t.weight * t.log_cost for t in traces) + _DOUBT * _FAILED / 2) / (weight + _DOUBT)
    candidate = traces[0].candidate
    return Hint(
        template=candidate.template or "",
        language=candidate.language,
        configuration=candidate.parameters,
        cost=round(math.exp(mean), 4),
        runs=len(traces),
    )


def _best(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    by_template: dict[tuple[str, str], list[Hint]] = defaultdict(list)
    for hint in sorted(hints, key=lambda one: one.cost):
        by_template[hint.template, hint.language].append(hint)
    return tuple(hint for group in by_template.values() for hint in group[:_MOST_HINTS])


def _name(candidate: Candidate) -> str:
    return json.dumps([candidate.template, candidate.language, candidate.parameters], sort_keys=True)
