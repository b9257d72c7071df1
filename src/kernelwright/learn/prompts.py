"""Journals → how each version of a prompt did, and which to use next.

A version is the shipped prompt with *guidance* put in at one place. It is tried against the shipped one, in
moves of the same time, and stays only if its moves came out better.

Covers: a run killed at any moment and moves that end in any order; a choice depends on the seed, the move and
the lines of the journal before the move was asked, and on nothing else.
Does not cover: whether guidance that helped on one task helps on another; its next runs say.
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
"""Moves of the coder after which the meta-step is asked for another version."""
ENOUGH = 6
"""Moves that a version and the shipped one must have each before they are compared."""
_TRIAL_SHARE = 0.5
"""Share of moves that goes to the comparison while there is one."""
_PRIOR_SD = 0.5
"""How far apart versions are taken to be, in doublings of speed, before anything is known of them."""
_BEGUN, _EVOLVED = "prompts", "guidance"

Standing = Literal["shipped", "trial", "kept", "retired"]


class Outcomes(Record):
    """What came of some moves."""

    moves: int = 0
    """How many have ended."""
    worked: int = 0
    """How many brought a candidate that works; for roles that answer in words, an answer."""
    compared: int = 0
    """How many brought one that works from a parent that does."""
    log2_speedup: float = 0.0
    """Doublings of speed against the parent, summed over those compared."""
    worth: float = 0.0
    """The worth of each move, summed."""

    def __add__(self, other: "Outcomes") -> "Outcomes":
        """Count both."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Outcomes(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def mean(self) -> float:
        """Worth of a move: doublings of speed between -1 and 1; a failure counts as a halving."""
        return self.worth / self.moves if self.moves else 0.0


class Version(Record):
    """One version of the coder's prompt."""

    version: str
    """The hash that replies note."""
    guidance: str = ""
    """What it adds to the shipped prompt; nothing for the shipped one itself."""
    own: Outcomes = Outcomes()
    """What came of its moves."""
    shipped: Outcomes = Outcomes()
    """What came of the shipped one's moves while this one could have been chosen."""

    @property
    def standing(self) -> Standing:
        """How it stands against the shipped one."""
        if not self.guidance:
            return "shipped"
        if min(self.own.moves, self.shipped.moves) < ENOUGH:
            return "trial"
        return "kept" if self.own.mean > self.shipped.mean else "retired"


@dataclass(frozen=True)
class Outcome:
    """What came of one move."""

    role: str
    version: str
    worked: bool
    log2_speedup: float | None = None
    """Against the parent; none where either does not work."""
    candidate: str = ""
    """Key of the best candidate that it brought."""

    @property
    def worth(self) -> float:
        """The move's worth; see `Outcomes.mean`."""
        return min(1.0, max(-1.0, self.log2_speedup or 0.0)) if self.worked else -1.0


def outcomes_of(outcomes: Iterable[Outcome]) -> Outcomes:
    """Add up moves."""
    moves = list(outcomes)
    gains = [one.log2_speedup for one in moves if one.log2_speedup is not None]
    return Outcomes(
        moves=len(moves), worked=sum(one.worked for one in moves), compared=len(gains), log2_speedup=sum(gains),
        worth=sum(one.worth for one in moves),
    )  # fmt: skip


class Moves:
    """The moves of a run as its journal tells them, line by line."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        """Take the journal; replies may stand anywhere in it, everything else counts in its order."""
        self.outcomes: dict[int, Outcome] = {}
        """Of every move that has ended, by its number; of several candidates the best counts."""
        self._notes = {e.number: _notes(e.record) for e in entries if e.kind == "reply"}
        self._parents: dict[int, str] = {}
        self._scores: dict[str, float | None] = {}

    def read(self, entry: Entry) -> None:
        """Take the next line."""
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
    """The versions of one run's coder prompt, as they stood when a move was asked for."""

    def __init__(self, entries: Sequence[Entry], move: int | None = None) -> None:
        """Read a journal up to the line that asked for a move, all of it by default.

        Where the meta-step is due before that line and is not in the journal, reading ends there.
        """
        begun: Mapping[str, JsonValue] = next((e.record for e in entries if e.kind == _BEGUN), {})
        self.base = str(begun.get("base", ""))
        """The shipped version."""
        known = begun.get("versions")
        self._known = [Version.model_validate(v) for v in (known if isinstance(known, list) else [])]
        self._moves = Moves(entries)
        self._choices: dict[int, set[str]] = {}
        """By move: what it could be carried out with."""
        self._versions: list[Version] | None = None
        """Worked out once between two lines that change them."""
        self._counted = 0
        """Moves of the coder that the latest meta-step knew of."""
        self.due: int | None = None
        """Number of the meta-step that has to be made; none where there is none."""
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
        """Outcomes of the coder's moves, by their numbers."""
        return {n: one for n, one in self._moves.outcomes.items() if one.role == "coder"}

    @property
    def gained(self) -> list[Version]:
        """The versions with what this run alone says of them."""
        return [self._gained(v) for v in self._known]

    @property
    def versions(self) -> list[Version]:
        """The versions with all that is known of them, the shipped one first."""
        if self._versions is None:
            self._versions = [_joined(v, self._gained(v)) for v in self._known]
        return self._versions

    @property
    def living(self) -> list[Version]:
        """The versions that may be used; the shipped one is always there."""
        return [v for v in self.versions if v.standing != "retired"]

    def choose(self, seed: int, move: int) -> Version:
        """Choose the version for a move: Thompson sampling, and a share of moves for what is on trial."""
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
    """Write into a run's journal what earlier runs know of a shipped version; a second time does nothing."""
    journal = store.journal(run)
    if not any(e.kind == _BEGUN for e in journal.entries()):
        known = [v.model_dump(mode="json") for v in versions_of(store, base)]
        journal.add(_BEGUN, None, {"base": base, "versions": [*known]})


def keep_guidance(journal: Journal, step: int, version: str, guidance: str, failure: str = "") -> None:
    """Write down what a meta-step brought; without a version it brought nothing."""
    journal.add(_EVOLVED, step, {"version": version, "guidance": guidance, "failure": failure})


def versions_of(store: Store, base: str) -> list[Version]:
    """Return the versions of a shipped prompt with what all runs say of them, the shipped one first."""
    found = {base: Version(version=base)}
    for entries in _journals(store):
        evolution = Evolution(entries)
        for version in evolution.gained if evolution.base == base else ():
            known = found.get(version.version)
            found[version.version] = _joined(known, version) if known else version
    return list(found.values())


def prompt_outcomes(store: Store) -> dict[tuple[str, str], Outcomes]:
    """Return what came of all moves, by role and version of its prompt."""
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
    """Draw what a move may be worth, shrunk towards nothing as by one move that changed nothing."""
    moves = outcomes.moves + 1
    return draw.gauss(outcomes.worth / moves, _PRIOR_SD / moves**0.5)


def _notes(reply: Mapping[str, JsonValue]) -> tuple[str, str]:
    notes = reply["notes"]
    notes = notes if isinstance(notes, dict) else {}
    return str(notes.get("role", "")), str(notes.get("prompt", ""))
