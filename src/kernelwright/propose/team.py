"""Editor → Editor: several roles around one operator, as configured by a recipe.

An operator may be prepared by advice (from a judge, a profiler-reader, a planner), carried out several times with
different lines of thought, and its proposals reviewed by others before anything is built.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice

from pydantic import Field, JsonValue

from ..errors import InputError
from ..records import (
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Record,
)
from ._protocol import Editor, Move, Reply, Request
from ._template import SourceTemplate

_MOST_WORDS = 2_000
_WORDS = {
    "bottleneck": "What binds: {}",
    "critique": "The judge says: {}",
    "evidence": "Figures: {}",
    "cause": "It does not work because: {}",
    "lines": "In these lines: {}",
    "advice": "Advice: {}",
    "risks": "It may be wrong on: {}",
    "summary": "So far: {}",
}
"""Notes passed to the next role, in this order, and their format."""


_CHOOSES = re.compile(r"-(O[0-3s]|m[\w=.-]+|f[\w=-]+|D\w+(=\w+)?)")
_LINKING = frozenset({"-fPIC", "-fpic", "-fopenmp", "-march=native"})
"""What the language says anyway."""
_WITH_FLAGS = frozenset({"cpp"})


class Steps(Record):
    """The steps around one operator."""

    first: tuple[str, ...] = ()
    """Operators asked for advice on the same candidates beforehand; each reads the earlier advice."""
    hint: str = ""
    """The recipe's hint, passed to the operator every time, also when it is asked `first`."""
    thoughts: tuple[str, ...] = ()
    """Lines of thought; each sample follows one of them, in turn."""
    samples: int = Field(default=1, ge=1)
    """How many times it is carried out."""
    built_by: str = ""
    """Operator that writes scripts for each proposal that passed; the flags of its `build` are the proposal's too."""
    read_by: str = ""
    """Operator that reviews each proposal before it is built; its `correct` is a vote, its `rating` a rank."""
    looks: tuple[str, ...] = ()
    """What the reviewers examine, sequentially; a proposal found wrong in one look is dropped."""
    votes: int = Field(default=1, ge=1)
    """Number of reviewers per look; the majority decides."""
    keep: int | None = Field(default=None, ge=1)
    """How many proposals to keep, the best rated first; all by default."""


class Team:
    """Carries out moves with another editor, step by step.

    Covers: any editor whose replies contain the role's notes.
    Does not cover: whether a reviewer is right: a proposal it drops is not built, and none is accepted on its word.
    """

    def __init__(self, editor: Editor, steps: Mapping[str, Steps]) -> None:
        """Put steps around an editor's operators; those not named are passed through.

        Raises:
            InputError: a step uses an operator that the editor does not support.
        """
        for around, one in steps.items():
            for operator in (*one.first, *filter(None, (one.read_by, one.built_by))):
                if operator not in editor.operators:
                    raise InputError(
                        f"the step around {around!r} asks for {operator!r}, which editor {editor.name!r} does not "
                        f"know; it knows {', '.join(editor.operators)}"
                    )
        self.name = editor.name
        self.operators: Sequence[str] = editor.operators
        self._editor = editor
        self._steps = dict(steps)

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move and the steps around it; the reply includes their cost and notes."""
        steps = self._steps.get(move.operator, Steps())
        words = self._prepare(move, steps, request)
        goal = _lines(move.goal, *words.said, steps.hint)
        replies = [
            self._editor.edit(replace(move, goal=_lines(goal, thought), sample=i), request)
            for i, thought in enumerate(_thoughts(steps))
        ]
        read = [self._read(p, move, steps, request) for p in _different(replies)]
        passed = sorted((r for r in read if r.passed), key=lambda r: -r.rating)
        kept = [self._built(r.proposal, move, steps, request) for r in islice(passed, steps.keep)]
        notes = words.notes | {k: v for r in replies for k, v in r.notes.items()}
        if read and steps.read_by:
            notes["readers"] = [{"passed": r.passed, "rating": r.rating, "said": list(r.said)} for r in read]
        scripts: dict[str, JsonValue] = {_key(one): reply.notes for one, reply in kept if reply.notes}
        notes |= {"scripts": scripts} if scripts else {}
        return Reply(
            proposals=tuple(one for one, _ in kept),
            notes=notes,
            usd=words.usd
            + sum(r.usd for r in (*replies, *(reply for _, reply in kept)))
            + sum(r.usd for r in read),
            failure="" if passed else _failure(replies, read),
        )

    def _prepare(self, move: Move, steps: Steps, request: Request) -> "_Words":
        """Ask each role for advice, with the earlier advice."""
        words = _Words()
        for operator in steps.first:
            hint = self._steps.get(operator, Steps()).hint
            asked = replace(move, operator=operator, goal=_lines(move.goal, *words.said, hint))
            words.hear(self._editor.edit(asked, request))
        return words

    def _built(
        self, proposal: Candidate | SourceTemplate, move: Move, steps: Steps, request: Request
    ) -> tuple[Candidate | SourceTemplate, Reply]:
        """Ask for a proposal's scripts, and add the flags of the first; a template keeps those that it has."""
        if not steps.built_by or not isinstance(proposal, Candidate):
            return proposal, Reply()
        asked = replace(move, operator=steps.built_by, parents=(_not_evaluated(proposal),), inspirations=())
        reply = self._editor.edit(asked, request)
        flags = flags_of(str(reply.notes.get("build") or ""), proposal.language)
        more = tuple(flag for flag in flags if flag not in proposal.flags)
        return (proposal.model_copy(update={"flags": (*proposal.flags, *more)}) if more else proposal), reply

    def _read(
        self, proposal: Candidate | SourceTemplate, move: Move, steps: Steps, request: Request
    ) -> "_Read":
        if not steps.read_by:
            return _Read(proposal)
        shown = proposal if isinstance(proposal, Candidate) else proposal.render(proposal.default())
        asked = replace(move, operator=steps.read_by, parents=(_not_evaluated(shown),), inspirations=())
        looks = [
            [
                self._editor.edit(replace(asked, goal=_lines(move.goal, look), sample=first + i), request)
                for i in range(steps.votes)
            ]
            for first, look in zip(count(step=steps.votes), steps.looks or ("",), strict=False)
        ]
        return _Read(proposal, looks)


def flags_of(script: str, language: str) -> tuple[str, ...]:
    """Return the flags of a build script that choose how code is made: optimisation, vectors, definitions.

    Output, includes, libraries and how a library is linked are the language's own. Where flags have other meanings than
    those of a C++ compiler's, there are none.

    Example:
        >>> flags_of("g++ -O2 -mprefer-vector-width=256 -fPIC -shared -o k.so k.cpp -lm", "cpp")
        ('-O2', '-mprefer-vector-width=256')
    """
    if language not in _WITH_FLAGS:
        return ()
    return tuple(dict.fromkeys(w for w in script.split() if _CHOOSES.fullmatch(w) and w not in _LINKING))


class _Words:
    """The roles' notes so far."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.notes: dict[str, JsonValue] = {}
        self.usd = 0.0

    def hear(self, reply: Reply) -> None:
        self.usd += reply.usd
        self.notes |= reply.notes
        self.said += [
            text.format(_text(reply.notes[name]))[:_MOST_WORDS]
            for name, text in _WORDS.items()
            if reply.notes.get(name)
        ]
        hypotheses = reply.notes.get("hypotheses")
        if isinstance(hypotheses, list) and hypotheses:
            best = max((h for h in hypotheses if isinstance(h, dict)), key=_rating, default={})
            self.said.append(f"Do this one step and no other: {best.get('idea', '')}")


class _Read:
    """A proposal and its reviewers' replies."""

    def __init__(self, proposal: Candidate | SourceTemplate, looks: Sequence[Sequence[Reply]] = ()) -> None:
        self.proposal = proposal
        replies = [r for look in looks for r in look]
        said = [r.notes for r in replies if not r.failure]
        self.passed = not any(map(_most_against, looks))
        self.rating = max((_rating(notes) for notes in said), default=0.0)
        self.said = tuple(_text(notes["risks"]) for notes in said if notes.get("risks"))
        self.usd = sum(r.usd for r in replies)


def _most_against(replies: Sequence[Reply]) -> bool:
    """Return whether most of the reviewers that answered found it wrong."""
    said = [r.notes for r in replies if not r.failure]
    return 2 * sum(notes.get("correct") is False for notes in said) > len(said)


def _lines(*parts: str) -> str:
    """Join the non-empty parts, one per line."""
    return "\n".join(filter(None, parts))


def _thoughts(steps: Steps) -> list[str]:
    """Return the line of thought of each sample."""
    thoughts = steps.thoughts or ("",)
    return [thoughts[i % len(thoughts)] for i in range(steps.samples)]


def _different(replies: Iterable[Reply]) -> list[Candidate | SourceTemplate]:
    """Return the proposals of all replies, without duplicates."""
    found: dict[str, Candidate | SourceTemplate] = {}
    for proposal in (p for r in replies for p in r.proposals):
        found.setdefault(_key(proposal), proposal)
    return list(found.values())


def _failure(replies: Sequence[Reply], read: Sequence[_Read]) -> str:
    if read:
        said = "; ".join(text for r in read for text in r.said)
        return f"the readers found every proposal wrong: {said or 'they gave no reason'}"
    return next((r.failure for r in replies if r.failure), "")


def _not_evaluated(candidate: Candidate) -> Evaluation:
    decision = Decision(
        candidate=candidate.key, status=DecisionStatus.INCONCLUSIVE, reason="not evaluated yet"
    )
    return Evaluation(candidate=candidate, build=Build(status=BuildStatus.OK), decision=decision)


def _key(proposal: Candidate | SourceTemplate) -> str:
    return proposal.key if isinstance(proposal, Candidate) else proposal.render(proposal.default()).key


def _rating(notes: Mapping[str, JsonValue]) -> float:
    rating = notes.get("rating")
    return float(rating) if isinstance(rating, int | float) else 0.0


def _text(value: JsonValue) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
