"""Editor → Editor: each of the coder's moves uses a version of its prompt; new versions are made now and then."""

import json
import threading
from collections.abc import Sequence
from dataclasses import replace

from ...errors import ModelError
from ...learn.prompts import Evolution, Version, begin, keep_guidance
from ...propose import Move, Reply, Request
from ...propose.llm import ROLES, LLMEditor
from ...records import Evaluation, Run
from ...store import Store

_SHOWN = 3
"""How many of the best moves, and of the worst, the meta-step sees."""
_MOST_VERSIONS = 8
"""How many of the latest versions it sees in addition to the shipped one."""


class Evolving:
    """Carry out moves with a model, the coder's with the prompt version that the outcomes favour.

    Covers: a run killed at any moment: choices are repeated exactly, and each meta-step is requested once.
    Does not cover: whether guidance is good advice; moves that follow it are judged like all others.
    """

    def __init__(self, editor: LLMEditor, store: Store, run: Run) -> None:
        """Load the versions that earlier runs left, or that this one had when it was interrupted."""
        self.name = editor.name
        self.operators: Sequence[str] = editor.operators
        self._editor = editor
        self._journal = store.journal(run.id)
        self._seed = run.seed
        self._lock = threading.Lock()
        begin(store, run.id, editor.prompts.version("coder"))

    def edit(self, move: Move, request: Request) -> Reply:
        """Carry out one move."""
        if not ROLES[move.operator].guided:
            return self._editor.edit(move, request)
        with self._lock:
            evolution = Evolution(self._journal.entries(), move.number)
            while evolution.due is not None and not request.cancelled():
                self._evolve(evolution, evolution.due, request)
                evolution = Evolution(self._journal.entries(), move.number)
        guidance = evolution.choose(self._seed, move.number).guidance
        return self._editor.edit(move, replace(request, guidance=guidance))

    def _evolve(self, evolution: Evolution, step: int, request: Request) -> None:
        """Request a new version and record the result, unless the run was interrupted meanwhile."""
        known = evolution.versions
        best, worst = _extremes(evolution, request.history)
        best_version = max(evolution.living, key=lambda v: v.own.mean)
        move = Move(
            step, "evolve", best, worst, goal="\n".join(map(_line, known[:1] + known[1:][-_MOST_VERSIONS:]))
        )
        try:
            reply = self._editor.edit(move, replace(request, guidance=best_version.guidance))
        except ModelError as error:
            reply = Reply(failure=str(error))
        if reply.failure and request.cancelled():
            return
        prompts = self._editor.prompts
        guidance = prompts.plain(str(reply.notes.get("guidance", "")))
        version = prompts.version("coder", guidance) if guidance else ""
        is_new = version not in {v.version for v in known}
        keep_guidance(self._journal, step, version if is_new else "", guidance, reply.failure)


def _line(version: Version) -> str:
    own, shipped = version.own, version.shipped
    said = f"{own.moves} moves, {own.worked} worked, worth {own.mean:+.3f}"
    if not version.guidance:
        return f"the shipped prompt, without guidance: {said}"
    against = f"the shipped one meanwhile {shipped.mean:+.3f}"
    return (
        f"{version.version} ({version.standing}): {said}, {against}; guidance {json.dumps(version.guidance)}"
    )


def _extremes(
    evolution: Evolution, history: Sequence[Evaluation]
) -> tuple[tuple[Evaluation, ...], tuple[Evaluation, ...]]:
    """Return the evaluations of the best moves and of the worst; none is in both."""
    known = {e.candidate.key: e for e in history}
    ended = [one for one in evolution.outcomes.values() if one.candidate in known]
    ordered = [known[one.candidate] for one in sorted(ended, key=lambda one: -one.worth)]
    return tuple(ordered[:_SHOWN]), tuple(ordered[_SHOWN:][-_SHOWN:])
