"""Recorded run, strategy → what the strategy would have found: compares whole searches at no cost.

A recording holds every move of a run, the editor's replies and the evaluation of each candidate. A strategy
asks it instead of an editor, and evaluations are looked up.

Covers: which parent to edit when, how many drafts, when to stop; strategies, their settings and seeds.
Does not cover: replies that the editor never gave. A move that was not recorded is answered by the nearest one that
was; the result reports how many were exact, and the fewer are, the less a comparison shows. Only a template's first
configuration counts.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from ...errors import InputError
from ...propose import Move, Reply, SourceTemplate
from ...records import Candidate, Evaluation
from ...store import Store
from ..archives import Scored
from ..strategies import Means, Strategy
from .serial import SerialSearch, serial_search


@dataclass(frozen=True)
class Step:
    """One recorded move and its reply."""

    number: int | None
    """The move's number."""
    operator: str
    parents: tuple[str, ...]
    """Keys of its parents, the main one first."""
    reply: Reply

    @property
    def kind(self) -> str:
        """The kind of move it may answer: words of the same kind, drafts, or edits."""
        if not self.reply.proposals and not self.reply.failure:
            return self.operator
        return "edit" if self.parents else "draft"


@dataclass(frozen=True)
class Recording:
    """All proposals and evaluations of one run."""

    name: str
    """The run's id."""
    starts: tuple[Candidate, ...]
    """The initial candidates."""
    steps: tuple[Step, ...]
    """Every move with a reply, in order."""
    evaluations: Mapping[str, Evaluation]
    """The evaluation of each candidate, by key."""

    @classmethod
    def load(cls, store: Store, run: str) -> "Recording":
        """Load a run.

        Raises:
            NotFoundError: there is no such run.
            InputError: the run asked no editor for anything.
        """
        name = store.run(run).id
        entries = store.journal(name).entries()
        asked = {e.number: e.record for e in entries if e.kind == "ask"}
        replies = {e.number: Reply.model_validate(e.record) for e in entries if e.kind == "reply"}
        if not replies:
            raise InputError(f"run {name} asked no editor for anything; simulate one made with --editor")
        found = {e.candidate.key: e for e in store.evaluations(name)}
        began = dict.fromkeys(
            str(e.record["candidate"]) for e in entries if e.kind == "tell" and e.number is None
        )
        steps = (
            Step(n, str(move["operator"]), _keys(move), replies[n])
            for n, move in asked.items()
            if n in replies
        )
        return cls(name, tuple(found[key].candidate for key in began), tuple(steps), found)

    @property
    def operators(self) -> tuple[str, ...]:
        """The recorded operators, and the two that every editor is assumed to support."""
        return tuple(dict.fromkeys(["draft", "improve", *(step.operator for step in self.steps)]))

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Look a candidate up."""
        return self.evaluations[candidate.key]


class Replay:
    """An editor that replies from a recording, using each reply once.

    It gives the nearest reply that is left: of the same operator on the same parent, the identical move first; then
    of another operator on it, then on a relative of the parent, then on anything. Candidates that were never
    evaluated are left out.
    """

    def __init__(self, recording: Recording, seed: int) -> None:
        self._left = list(recording.steps)
        self._known = recording.evaluations
        self._seed = seed
        self._made_of: dict[str, tuple[str, ...]] = {
            _first(p).key: step.parents for step in recording.steps for p in step.reply.proposals
        }
        self.answers = {"exact": 0, "near": 0, "none": 0}
        """How many moves were answered by the same move, by another, or not at all."""

    def edit(self, move: Move) -> Reply:
        """Answer a move."""
        dice = random.Random(f"{self._seed} {move.number}")
        kind = self._kind(move)
        ranked = [
            (self._distance(move, s), dice.random(), n) for n, s in enumerate(self._left) if s.kind == kind
        ]
        if not ranked:
            self.answers["none"] += 1
            return Reply(failure=f"the recording has no {kind} left")
        distance, _, place = min(ranked)
        self.answers["near" if distance > 1 else "exact"] += 1
        reply = self._left.pop(place).reply
        evaluated = tuple(p for p in reply.proposals if _first(p).key in self._known)
        return reply.model_copy(update={"proposals": evaluated})

    def _kind(self, move: Move) -> str:
        if any(step.kind == move.operator != "draft" for step in self._left):
            return move.operator
        return "edit" if move.parents else "draft"

    def _distance(self, move: Move, step: Step) -> int:
        asked = move.parents[0].candidate.key if move.parents else ""
        made = step.parents[0] if step.parents else ""
        if asked == made:
            return 2 if move.operator != step.operator else int(move.number != step.number)
        return 3 if self._ancestors(asked) & self._ancestors(made) else 4

    def _ancestors(self, key: str) -> set[str]:
        seen, left = set[str](), [key]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += self._made_of.get(one, ())
        return seen


@dataclass(frozen=True)
class Rehearsal:
    """What a strategy finds on a recording, seed by seed."""

    fractions: tuple[float, ...]
    """Best score found, divided by the best recorded; 0 if nothing found works."""
    exact: float
    """Share of its moves that were answered by the identical move."""
    usd: float
    """Mean cost of the replies."""

    def quantile(self, share: float) -> float:
        """Return a quantile of the fractions."""
        return float(np.quantile(self.fractions, share))


def rehearse(
    recording: Recording, make: Callable[[Means], Strategy], *, evaluations: int, seeds: int, width: int = 1
) -> Rehearsal:
    """Run a strategy on a recording once for each seed, starting from 0."""
    found: list[SerialSearch] = []
    answers: list[Mapping[str, int]] = []
    for seed in range(seeds):
        replay = Replay(recording, seed)
        strategy = make(Means(seed, recording.operators))
        found.append(
            serial_search(
                strategy, replay.edit, recording.evaluate,
                evaluations=evaluations, width=width, starts=recording.starts,
            )
        )  # fmt: skip
        answers.append(replay.answers)
    best = max((Scored.of(e).score or 0.0 for e in recording.evaluations.values()), default=0.0)
    moves = sum(sum(a.values()) for a in answers)
    return Rehearsal(
        fractions=tuple(w.best / best if best else 0.0 for w in found),
        exact=sum(a["exact"] for a in answers) / max(1, moves),
        usd=sum(w.usd for w in found) / max(1, seeds),
    )


def _keys(record: Mapping[str, JsonValue]) -> tuple[str, ...]:
    parents = record["parents"]
    return tuple(map(str, parents)) if isinstance(parents, list) else ()


def _first(proposal: Candidate | SourceTemplate) -> Candidate:
    return proposal if isinstance(proposal, Candidate) else proposal.render(proposal.default())
