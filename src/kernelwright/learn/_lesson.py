"""What a lesson is: in which situation which edit had which measured effect, and by what evidence."""

from typing import Literal

from ..records import SCHEMA_VERSION, Interval, Record, Scalar

Outcome = Literal["faster", "slower", "equal", "unclear", "refused", "repaired"]
"""`faster`, `slower`: the whole interval says so; `equal`: the whole interval lies within 2 % of 1; `unclear`: the
interval allows either; `refused`: it did not build or was rejected; `repaired`: it works and its parent did not."""


class Situation(Record):
    """Where an edit was made."""

    task: str
    """The task's name."""
    family: str
    """What the task mostly computes: its heaviest operator, such as `softmax`."""
    operators: tuple[str, ...]
    """Its operators, the heaviest first."""
    elements: float
    """Elements of its arguments, geometric mean over the search workloads."""
    dtypes: tuple[str, ...]
    """Data types of its arguments."""
    bound_by: str
    """What binds it: `dram`, `l2`, `float32`, `launch` ..."""
    device: str
    """Fingerprint of the device."""


class Edit(Record):
    """What was done."""

    what: str
    """In words."""
    language: str
    """The language of the result."""
    proposer: str
    """Who did it."""
    template: str | None = None
    """The template that rendered the result."""
    changed: dict[str, tuple[Scalar, Scalar]] = {}
    """Parameters that differ: before and after; before is none where there was no parent."""

    @property
    def signature(self) -> str:
        """The same for edits that are the same thing done again, wherever it was done."""
        named = self.template or self.what
        changed = ",".join(f"{name}:{old}>{new}" for name, (old, new) in sorted(self.changed.items()))
        return f"{self.language}|{' '.join(named.lower().split())}|{changed}"


class Evidence(Record):
    """The evaluations that a lesson was drawn from."""

    run: str
    """The run's id."""
    child: str
    """Key of the candidate that the edit led to."""
    parent: str = ""
    """Key of the candidate that was edited; empty: the native op."""
    stage: str = "screen"
    """How far the child went; `full` is worth more."""


class Lesson(Record):
    """One measured effect of one edit. Drawn from decisions, never from what anybody claimed."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    situation: Situation
    """Where."""
    edit: Edit
    """What."""
    outcome: Outcome
    """How it came out."""
    effect: Interval | None
    """The parent's time over the child's, conservative limits; none where one of them was not timed."""
    reason: str = ""
    """The check or build step that refused the child, or its parent where it was repaired."""
    evidence: Evidence
    """By what."""
    source: str = ""
    """Where it was imported from; empty: this store."""

    @property
    def helped(self) -> bool:
        """Whether the edit is worth trying again."""
        return self.outcome in {"faster", "repaired"}

    def __str__(self) -> str:
        """Say it in one sentence."""
        where = f"{self.situation.family}, {self.situation.elements:.2g} elements, bound by {self.situation.bound_by}"
        against = "the native op" if not self.evidence.parent else "its parent"
        measured = f", {self.effect} times as fast as {against}" if self.effect else ""
        why = f" ({self.reason})" if self.reason else ""
        done = f"{self.edit.what}{_steps(self.edit)} [{self.edit.language}]"
        return f"{where} on {self.situation.device}: {done}: {self.outcome}{why}{measured}"


def _steps(edit: Edit) -> str:
    """Write the parameters that an edit changed."""
    if not edit.changed:
        return ""
    steps = (
        f"{name} {new}" if old is None else f"{name} {old} to {new}"
        for name, (old, new) in edit.changed.items()
    )
    return f" ({', '.join(steps)})"
