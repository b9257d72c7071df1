"""Run → lessons, derived from its decisions.

Covers: every edit of a candidate, repairs, first attempts, and the best configuration of each template.
Does not cover: why an edit helped; anything not measured.
"""

from collections.abc import Iterable, Iterator, Mapping

from pydantic import JsonValue

from ..records import Bound, BuildStatus, DecisionStatus, Evaluation, Interval, Split, TensorSpec
from ..store import Store
from ._lesson import Edit, Evidence, Lesson, Outcome, Situation
from ._size import elements_of

KIND = "lesson"
"""Kind under which lessons are kept in the store."""
_NATIVE = Interval(median=1.0, low=1.0, high=1.0)
_LEAST = 0.02
"""Least relative difference of times for one to count as faster."""
_FAILED = frozenset({DecisionStatus.REJECTED, DecisionStatus.UNKNOWN})


def learn_from(store: Store, run: str) -> tuple[Lesson, ...]:
    """Derive the lessons of a run and store them, replacing those derived from it before."""
    lessons = lessons_of(store, run)
    store.keep(KIND, run, {lesson.key: lesson.to_json() for lesson in lessons})
    return lessons


def lessons_of(store: Store, run: str) -> tuple[Lesson, ...]:
    """Derive the lessons of a run from its evaluations; deterministic for a given store."""
    evaluations = store.evaluations(run)
    if not evaluations:
        return ()
    situation = situation_of(store, run)
    known = {e.candidate.key: e for e in evaluations}
    return tuple(
        _lesson(situation, run, parent, child)
        for parent, child in _pairs(evaluations, known)
        if child.decision.status is not DecisionStatus.UNKNOWN
    )


def situation_of(store: Store, run: str) -> Situation:
    """Return the situation of a run, from its task and its profile and bound events."""
    record = store.run(run)
    task, events = store.task(record.task), store.events(record.id)
    profile: Mapping[str, JsonValue] = next((e for e in reversed(events) if e["event"] == "profile"), {})
    bounds = next((e["bounds"] for e in reversed(events) if e["event"] == "bound"), [])
    operators = _operators(profile.get("operators"))
    specs = [s for w in task.split(Split.SEARCH) for s in w.arguments if isinstance(s, TensorSpec)]
    return Situation(
        task=task.name,
        family=operators[0] if operators else task.name,
        operators=operators,
        elements=elements_of(task),
        dtypes=tuple(sorted({spec.dtype for spec in specs})),
        bound_by=Bound.model_validate(bounds[0]).binding if isinstance(bounds, list) and bounds else "",
        device=record.device,
    )


def _pairs(
    evaluations: Iterable[Evaluation], known: Mapping[str, Evaluation]
) -> Iterator[tuple[Evaluation | None, Evaluation]]:
    """Yield each child with its parent, None for the native op; for a template only its best."""
    best: dict[tuple[str, str], Evaluation] = {}
    for child in evaluations:
        candidate = child.candidate
        parents = [known[key] for key in candidate.parents if key in known]
        if parents:
            yield parents[0], child
        elif candidate.template is None:
            yield None, child
        else:
            name = candidate.template, candidate.language
            best[name] = max(child, best.get(name, child), key=_merit)
    for child in best.values():
        yield None, child


def _lesson(situation: Situation, run: str, parent: Evaluation | None, child: Evaluation) -> Lesson:
    effect = _effect(parent, child)
    failed, repaired = _failure(child), parent is not None and _failure(parent)
    outcome: Outcome = "refused" if failed else "repaired" if repaired else _outcome(effect)
    return Lesson(
        situation=situation,
        edit=_edit(parent, child),
        outcome=outcome,
        effect=effect,
        reason=failed or repaired or "",
        evidence=Evidence(
            run=run,
            child=child.candidate.key,
            parent=parent.candidate.key if parent else "",
            stage=child.stage,
        ),
    )


def _edit(parent: Evaluation | None, child: Evaluation) -> Edit:
    candidate = child.candidate
    before = parent.candidate.parameters if parent else {}
    changed = {
        name: (before.get(name), value)
        for name, value in sorted(candidate.parameters.items())
        if before.get(name) != value
    }
    words = candidate.reason or (
        f"template {candidate.template}" if candidate.template else candidate.proposer
    )
    return Edit(
        what=words,
        language=candidate.language,
        proposer=candidate.proposer,
        template=candidate.template,
        changed=changed,
    )


def _effect(parent: Evaluation | None, child: Evaluation) -> Interval | None:
    """Return the ratio of the two speedups over the native op, with worst-case limits."""
    old, new = (parent.decision.speedup if parent else _NATIVE), child.decision.speedup
    if old is None or new is None:
        return None
    low = None if new.low is None or old.high is None else round(new.low / old.high, 6)
    high = None if new.high is None or not old.low else round(new.high / old.low, 6)
    return Interval(median=round(new.median / old.median, 6), low=low, high=high)


def _outcome(effect: Interval | None) -> Outcome:
    if effect is None:
        return "unclear"
    if effect.at_least > 1 - _LEAST and effect.at_most < 1 + _LEAST:
        return "equal"
    return "faster" if effect.at_least > 1 else "slower" if effect.at_most < 1 else "unclear"


def _failure(evaluation: Evaluation) -> str:
    """Return what refused a candidate; empty if it works."""
    if evaluation.build.status is not BuildStatus.OK:
        return f"build-{evaluation.build.status}"
    if evaluation.decision.status in _FAILED:
        return (evaluation.verdict.failure if evaluation.verdict else "") or str(evaluation.decision.status)
    return ""


def _merit(evaluation: Evaluation) -> tuple[bool, float]:
    speedup = evaluation.decision.speedup
    return not _failure(evaluation), speedup.median if speedup else 0.0


def _operators(value: JsonValue) -> tuple[str, ...]:
    shares = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    heaviest = sorted(shares, key=lambda one: -float(str(one["share"])))
    return tuple(str(one["name"]).removeprefix("aten::").strip("_") for one in heaviest)
