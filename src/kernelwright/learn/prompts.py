"""Journals → outcomes of each version of a prompt, and which version to use next.

A version is the shipped prompt with *guidance* inserted at one place. It is compared with the shipped one, in
moves of the same period, and stays only if its moves had better outcomes.

Covers: a run killed at any moment and moves that end in any order; a choice depends on the seed, the move and
the lines of the journal before the move was requested, and on nothing else.
Does not cover: whether guidance that helped on one task helps on another; later runs show it.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Literal

from pydantic import JsonValue

from ..records import Record
from ..store import Entry, Journal, Store

EVERY = 8
"""Moves of the coder between meta-steps, which propose another version."""
ENOUGH = 6
"""Moves that a version and the shipped one must each have before they are compared."""
_TRIAL_SHARE = 0.5
"""Share of moves used for the comparison while one is under way."""
_PRIOR_SD = 0.5
"""Prior standard deviation of the difference between versions, in doublings of speed."""
_BEGUN, _EVOLVED = "prompts", "guidance"

Standing = Literal["shipped", "trial", "kept", "retired"]


class Outcomes(Record):
    """Aggregated outcomes of moves."""

    moves: int = 0
    """Number of moves that have ended."""
    worked: int = 0
    """Moves that produced a working candidate, or an answer for roles that answer in words."""
    compared: int = 0
    """Moves that produced a working candidate from a working parent."""
    log2_speedup: float = 0.0
    """Doublings of speed over the parent, summed over those compared."""
    worth: float = 0.0
    """Sum of the values of the moves."""

    def __add__(self, other: "Outcomes") -> "Outcomes":
        """Add two aggregates."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Outcomes(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def mean(self) -> float:
        """Mean value of a move: doublings of speed between -1 and 1; a failure counts as a halving."""
        return self.worth / self.moves if self.moves else 0.0


class Version(Record):
    """One version of the coder's prompt."""

    version: str
    """Its hash, as noted in replies."""
    guidance: str = ""
    """What it adds to the shipped prompt; empty for the shipped one itself."""
    own: Outcomes = Outcomes()
    """Outcomes of its moves."""
    shipped: Outcomes = Outcomes()
    """Outcomes of the shipped prompt's moves while this version could have been chosen."""

    @property
    def standing(self) -> Standing:
        """How it compares with the shipped one."""
        if not self.guidance:
            return "shipped"
        if min(self.own.moves, self.shipped.moves) < ENOUGH:
            return "trial"
        return "kept" if self.own.mean > self.shipped.mean else "retired"


@dataclass(frozen=True)
class Outcome:
    """Outcome of one move."""

    role: str
    version: str
    worked: bool
    log2_speedup: float | None = None
    """Relative to the parent. None if either does not work."""
    candidate: str = ""
    """Key of its best candidate."""

    @property
    def worth(self) -> float:
        """The move's value; see `Outcomes.mean`."""
        return min(1.0, max(-1.0, self.log2_speedup or 0.0)) if self.worked else -1.0


def outcomes_of(outcomes: Iterable[Outcome]) -> Outcomes:
    """Aggregate the outcomes of moves."""
    moves = list(outcomes)
    gains = [one.log2_speedup for one in moves if one.log2_speedup is not None]
    return Outcomes(
        moves=len(moves), worked=sum(one.worked for one in moves), compared=len(gains), log2_speedup=sum(gains),
        worth=sum(one.worth for one in moves),
    )  # fmt: skip


class Moves:
    """The moves of a run, read from its journal line by line."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Take the journal; replies may occur anywhere in it, everything else is read in order."""
        self.outcomes: dict[int, Outcome] = {}
        """By number of every move that has ended; of several candidates the best counts."""
        self._notes = {e.number: _notes(e.record) for e in entries if e.kind == "reply"}
        self._parents: dict[int, str] = {}
        self._scores: dict[str, float | None] = {}

    def read(self, entry: Entry) -> None:
        """Process the next line."""
        number, record = entry.number, entry.record
        if entry.kind == "tell":
            self._tell(number, str(record["candidate"]), record["score"])
        elif number is None:
            return
        elif entry.kind == "ask":
            parents = record["parents"]
            self._parents[number] = str(parents[0]) if isinstance(parents, list) and parents else ""
        elif entry.kind == "heard" and not record["kept"]:
            self._end(number, Outcome(*self._notes[number], worked=not record["failure"]))

    def _tell(self, number: int | None, candidate: str, score: JsonValue) -> None:
        speed = float(score) if isinstance(score, int | float) else None
        self._scores[candidate] = speed
        if number is None or number not in self._notes:
            return
        before = self._scores.get(self._parents[number])
        gained = log2(speed / before) if speed and before else None
        self._end(number, Outcome(*self._notes[number], speed is not None, gained, candidate))

    def _end(self, number: int, outcome: Outcome) -> None:
        known = self.outcomes.get(number)
        if known is None or (outcome.worked, outcome.worth) > (known.worked, known.worth):
            self.outcomes[number] = outcome


class Evolution:
    """The versions of one run's coder prompt, as of the request for a move."""

    def __init__(self, entries: Sequence[Entry], move: int | None = None) -> None:
        """Read a journal up to the line that requested a move, all of it by default.

        If a meta-step is due before that line and is not in the journal, reading ends there.
        """
        begun: Mapping[str, JsonValue] = next((e.record for e in entries if e.kind == _BEGUN), {})
        self.base = str(begun.get("base", ""))
        """The shipped version."""
        known = begun.get("versions")
        self._known = [Version.model_validate(v) for v in (known if isinstance(known, list) else [])]
        self._moves = Moves(entries)
        self._choices: dict[int, set[str]] = {}
        """By move: the versions it could use."""
        self._versions: list[Version] | None = None
        """Cached until a line changes them."""
        self._counted = 0
        """Number of the coder's moves at the latest meta-step."""
        self.due: int | None = None
        """Number of the meta-step that is due. None if none is."""
        self.steps = 0
        """Meta-steps made so far."""
        evolved = {e.number: e.record for e in entries if e.kind == _EVOLVED}
        for entry in entries:
            if entry.kind == "ask" and entry.number is not None:
                if entry.number == move:
                    return
                self._choices[entry.number] = {v.version for v in self.living}
            self._moves.read(entry)
            self._versions = None if entry.kind in {"heard", "tell"} else self._versions
            if entry.kind in {"heard", "tell"} and self._is_due():
                if self.steps not in evolved:
                    self.due = self.steps
                    return
                self._evolve(evolved[self.steps])

    @property
    def outcomes(self) -> dict[int, Outcome]:
        """Outcomes of the coder's moves, by number."""
        return {n: one for n, one in self._moves.outcomes.items() if one.role == "coder"}

    @property
    def gained(self) -> list[Version]:
        """The versions with their outcomes in this run alone."""
        return [self._gained(v) for v in self._known]

    @property
    def versions(self) -> list[Version]:
        """The versions with all known outcomes, the shipped one first."""
        if self._versions is None:
            self._versions = [_joined(v, self._gained(v)) for v in self._known]
        return self._versions

    @property
    def living(self) -> list[Version]:
        """The versions that may be used, always including the shipped one."""
        return [v for v in self.versions if v.standing != "retired"]

    def choose(self, seed: int, move: int) -> Version:
        """Choose the version for a move: Thompson sampling, with a share of moves reserved for a version on trial."""
        draw = random.Random(f"{seed} {move}")
        living = self.living
        on_trial = [v for v in living if v.standing == "trial"]
        if on_trial and draw.random() < _TRIAL_SHARE:
            one = on_trial[0]
            return one if one.own.moves <= one.shipped.moves else living[0]
        return max(living, key=lambda v: _drawn(v.own, draw))

    def _is_due(self) -> bool:
        ended = len(self.outcomes)
        if not self.base or ended < self._counted + EVERY:
            return False
        return all(v.standing != "trial" for v in self.versions)

    def _evolve(self, record: Mapping[str, JsonValue]) -> None:
        self.steps += 1
        self._counted = len(self.outcomes)
        name = str(record["version"])
        if name and name not in {v.version for v in self._known}:
            self._versions = None
            self._known.append(Version(version=name, guidance=str(record["guidance"])))

    def _gained(self, version: Version) -> Version:
        outcomes = self.outcomes.items()
        own = outcomes_of(one for _, one in outcomes if one.version == version.version)
        shipped = outcomes_of(
            one
            for number, one in outcomes
            if one.version == self.base and version.version in self._choices.get(number, ())
        )
        return version.model_copy(update={"own": own, "shipped": shipped})


def begin(store: Store, run: str, base: str) -> None:
    """Write earlier outcomes of a shipped version into a run's journal; a second call does nothing."""
    journal = store.journal(run)
    if not any(e.kind == _BEGUN for e in journal.entries()):
        known = [v.model_dump(mode="json") for v in versions_of(store, base)]
        journal.add(_BEGUN, None, {"base": base, "versions": [*known]})


def keep_guidance(journal: Journal, step: int, version: str, guidance: str, failure: str = "") -> None:
    """Record the result of a meta-step; without a version it brought nothing."""
    journal.add(_EVOLVED, step, {"version": version, "guidance": guidance, "failure": failure})


def versions_of(store: Store, base: str) -> list[Version]:
    """Return the versions of a shipped prompt with their outcomes in all runs, the shipped one first."""
    found = {base: Version(version=base)}
    for entries in _journals(store):
        evolution = Evolution(entries)
        for version in evolution.gained if evolution.base == base else ():
            known = found.get(version.version)
            found[version.version] = _joined(known, version) if known else version
    return list(found.values())


def prompt_outcomes(store: Store) -> dict[tuple[str, str], Outcomes]:
    """Return the outcomes of all moves, by role and prompt version."""
    found: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for entries in _journals(store):
        moves = Moves(entries)
        for entry in entries:
            moves.read(entry)
        for one in moves.outcomes.values():
            found[one.role, one.version].append(one)
    return {name: outcomes_of(moves) for name, moves in sorted(found.items()) if all(name)}


def _journals(store: Store) -> Iterator[list[Entry]]:
    for run in reversed(store.runs()):
        yield store.journal(run.id).entries()


def _joined(one: Version, other: Version) -> Version:
    return one.model_copy(update={"own": one.own + other.own, "shipped": one.shipped + other.shipped})


def _drawn(outcomes: Outcomes, draw: random.Random) -> float:
    """Sample the value of a move, shrunk towards zero by one pseudo-move without effect."""
    moves = outcomes.moves + 1
    return draw.gauss(outcomes.worth / moves, _PRIOR_SD / moves**0.5)


def _notes(reply: Mapping[str, JsonValue]) -> tuple[str, str]:
    notes = reply["notes"]
    notes = notes if isinstance(notes, dict) else {}
    return str(notes.get("role", "")), str(notes.get("prompt", ""))
