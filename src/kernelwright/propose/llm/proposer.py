"""A language model as a proposer: plan, draft, then repair and improve, one move at a time."""

from collections.abc import Iterator, Sequence

from ...errors import ModelError
from ...records import BuildStatus, DecisionStatus, Evaluation
from .._protocol import Move, Proposal, Request
from .editor import LLMEditor

_DRAFTS = 4
_MOST_MOVES = 60
_MOST_FAILURES = 3
_MOST_TRIED = 12


class LLMProposer:
    """Asks a model greedily: a plan, a draft for each idea, then failures are repaired once and the best is improved.

    A template that it writes is tuned like any other. Strategies of `search/` use the editor instead.

    Covers: a resumed run: plan and drafts do not depend on evaluations, so the ledger answers them again.
    Does not cover: several models; the first one named is asked.
    """

    name = "llm"
    waits = True

    def __init__(self, editor: LLMEditor | None = None, *, drafts: int = _DRAFTS) -> None:
        self._editor = editor or LLMEditor()
        self._drafts = drafts

    def propose(self, request: Request) -> Iterator[Proposal]:
        """Yield drafts, then changes to evaluated candidates, until none can be changed.

        Raises:
            ModelError: there is no model, no money is left, or several consecutive answers were unusable.
        """
        plan = self._editor.edit(Move(0, "plan"), request)
        ideas = plan.notes.get("hypotheses")
        goals = [str(h["idea"]) for h in ideas if isinstance(h, dict)] if isinstance(ideas, list) else []
        failures, repaired, drafted = 0, set[str](), list[str]()
        for number in range(1, _MOST_MOVES):
            move: Move | None
            if number <= self._drafts:
                goal = goals[number - 1] if number <= len(goals) else ""
                move = Move(number, "draft", goal=goal, tried=tuple(drafted))
            else:
                move = _next(number, request.history, repaired)
            if move is None:
                return
            reply = self._editor.edit(move, request)
            failures = failures + 1 if reply.failure else 0
            if failures >= _MOST_FAILURES:
                raise ModelError(f"{failures} answers running were of no use; the last: {reply.failure}")
            drafted += [one.reason for one in reply.proposals if one.reason]
            yield from reply.proposals


def _next(number: int, history: Sequence[Evaluation], repaired: set[str]) -> Move | None:
    """Choose the next move: repair our latest candidate if it fails, else improve the best."""
    known = list(history)
    broken = [
        e for e in known if e.candidate.proposer == "llm" and _fails(e) and e.candidate.key not in repaired
    ]
    if broken:
        repaired.add(broken[-1].candidate.key)
        return Move(number, "repair", parents=(broken[-1],))
    best = max((e for e in known if not _fails(e)), key=_speedup, default=None)
    if best is None:
        return None
    children = [e for e in known if best.candidate.key in e.candidate.parents]
    tried = tuple(f"{e.candidate.reason}: {e.decision.status}" for e in children[-_MOST_TRIED:])
    return Move(number, "improve", parents=(best,), tried=tried)


def _fails(evaluation: Evaluation) -> bool:
    if evaluation.is_executed:
        return False
    rejected = evaluation.decision.status in {DecisionStatus.REJECTED, DecisionStatus.UNKNOWN}
    return rejected or evaluation.build.status is not BuildStatus.OK


def _speedup(evaluation: Evaluation) -> float:
    speedup = evaluation.decision.speedup
    return evaluation.executed_order if speedup is None else speedup.median
