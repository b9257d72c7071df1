"""The lesson record: the measured effect of an edit in a situation, with its evidence."""

from typing import Literal

from ..records import SCHEMA_VERSION, Interval, Record, Scalar

Outcome = Literal["faster", "slower", "equal", "unclear", "refused", "repaired"]
"""`faster`, `slower`: the whole interval agrees; `equal`: the whole interval is within 2 % of 1; `unclear`: the
interval allows either; `refused`: it did not build or was rejected; `repaired`: it works and its parent did not."""


class Situation(Record):
    """The situation in which an edit was made."""

    task: str
    """The task's name."""
    family: str
    """What the task mostly computes: its most expensive operator, such as `softmax`."""
    operators: tuple[str, ...]
    """Its operators, the most expensive first."""
    elements: float
    """Elements of its arguments, geometric mean over the search workloads."""
    dtypes: tuple[str, ...]
    """Data types of its arguments."""
    bound_by: str
    """The binding resource: `dram`, `l2`, `float32`, `launch` ..."""
    device: str
    """Fingerprint of the device."""


class Edit(Record):
    """An edit."""

    what: str
    """Description of the edit in words."""
    language: str
    """The language of the result."""
    proposer: str
    """The proposer or editor that made it."""
    template: str | None = None
    """The template that rendered the result."""
    changed: dict[str, tuple[Scalar, Scalar]] = {}
    """Parameters that differ: before and after; before is None if there was no parent."""

    @property
    def signature(self) -> str:
        """Identifies the edit: equal for the same edit in any situation."""
        named = self.template or self.what
        changed = ",".join(f"{name}:{old}>{new}" for name, (old, new) in sorted(self.changed.items()))
        return f"{self.language}|{' '.join(named.lower().split())}|{changed}"


class Evidence(Record):
    """The evaluations from which a lesson was derived."""

    run: str
    """The run's id."""
    child: str
    """Key of the edited candidate."""
    parent: str = ""
    """Key of the candidate before the edit; empty for the native op."""
    stage: str = "screen"
    """How far the child went; `full` is stronger evidence."""


class Lesson(Record):
    """One measured effect of one edit, derived from decisions, never from claims."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    situation: Situation
    """The situation in which the edit was made."""
    edit: Edit
    """The edit."""
    outcome: Outcome
    """Its outcome."""
    effect: Interval | None
    """The parent's time over the child's, with conservative limits. None if one of them was not timed."""
    reason: str = ""
    """The check or build step that refused the child, or the parent if the child repaired it."""
    evidence: Evidence
    """The evaluations that show it."""
    source: str = ""
    """Where it was imported from; empty for this store."""

    @property
    def helped(self) -> bool:
        """Whether the edit should be tried again."""
        return self.outcome in {"faster", "repaired"}

    def __str__(self) -> str:
        """Return the lesson as one sentence."""
        where = f"{self.situation.family}, {self.situation.elements:.2g} elements, bound by {self.situation.bound_by}"
        against = "the native op" if not self.evidence.parent else "its parent"
        measured = f", {self.effect} times as fast as {against}" if self.effect else ""
        why = f" ({self.reason})" if self.reason else ""
        done = f"{self.edit.what}{_steps(self.edit)} [{self.edit.language}]"
        return f"{where} on {self.situation.device}: {done}: {self.outcome}{why}{measured}"


def _steps(edit: Edit) -> str:
    """Return the parameters that an edit changed, as text."""
    if not edit.changed:
        return ""
    steps = (
        f"{name} {new}" if old is None else f"{name} {old} to {new}"
        for name, (old, new) in edit.changed.items()
    )
    return f" ({', '.join(steps)})"
