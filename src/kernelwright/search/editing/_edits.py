"""Moves under way: chosen by a strategy, carried out by editors in threads, written to disk before they are used."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from dataclasses import dataclass, replace

from pydantic import JsonValue

from ...errors import InputError, KernelwrightError
from ...propose import Editor, Move, Proposal, Reply, Request
from ...records import Candidate, Evaluation
from ...store import Journal
from ..archives import Scored
from ..strategies import Strategy
from ._tried import Tried

_MOST_FRUITLESS = 20
"""Consecutive replies without anything new after which the search asks for no more."""
_MOST_UNPRODUCTIVE = 8
"""The same before the first new candidate: an editor that is unreachable or unusable costs no more than this."""
_GRACE_S = 5.0
"""How long cancelled edits may take to end; those that end in time are kept."""


@dataclass(frozen=True)
class Edit:
    """One move and the new proposals it produced."""

    move: Move
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True)
class EditServices:
    """The editors that carry moves out, and their limits."""

    editors: Sequence[Editor]
    """The first that supports a move's operator carries it out."""
    request: Request
    """What they receive in addition to the move."""
    width: int
    """Most unsettled moves at any time: under way, or with candidates still to be evaluated."""
    room: Callable[[int], bool]
    """Whether the budget allows one more move in addition to this many."""
    left_s: Callable[[], float]
    """Wall seconds to wait for a reply, at most."""
    emit: Callable[..., None]
    """Where events are reported."""


class Edits:
    """Keep a strategy's moves under way and deliver their results in the order of the moves.

    The order does not depend on which move finishes first, so the same seed and replies make the same search. Every
    move and reply is in the journal before it is acted on, and every reply and score before the next move begins.
    Resuming a run replays the same calls to the strategy and carries out again only moves without a recorded reply.

    Covers: an interrupt at any moment, a process killed at any moment, editors that fail or return duplicates.
    Does not cover: an editor's own costs while it is running; the ledger of calls records those.
    """

    def __init__(
        self,
        strategy: Strategy,
        services: EditServices,
        journal: Journal,
        known: dict[str, Evaluation],
        workloads: Sequence[str],
    ) -> None:
        """Restore the strategy to the state recorded in the journal.

        Raises:
            InputError: the journal belongs to another strategy, or to another version of it.
        """
        self._strategy, self._services, self._journal = strategy, services, journal
        self._known, self._workloads = known, workloads
        self._cancelled = threading.Event()
        self._moves: dict[int, Move] = {}
        self._waiting: deque[int] = deque()
        """Moves whose replies were not yet passed to the strategy, in order."""
        self._replies: dict[int, Future[Reply]] = {}
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._heard: deque[Edit] = deque()
        """Edits completed before the run was resumed, to be delivered again."""
        self._untold: dict[int, set[str]] = {}
        self._told: set[tuple[int | None, str]] = set()
        self._tried = Tried()
        self._fruitless = 0
        self._brought = False
        self._ended = False
        self._replay()
        self._begun = bool(self._moves)
        """Whether the start is over: all initial candidates are reported before the first move."""

    def next(self) -> Edit | None:
        """Wait for the oldest move that brings something new. None if there is no more, or time is up."""
        if self._heard:
            return self._heard.popleft()
        self._begun = True
        while True:
            self.top_up()
            if not self._waiting:
                return None
            try:
                edit = self._take(self._waiting[0])
            except KernelwrightError as error:
                self._services.emit("edits", message=f"no more edits: {error}")
                self._ended = True
                self._waiting.clear()
                return None
            except StillWaiting:
                return None
            if edit.proposals:
                return edit

    def tell(self, evaluation: Evaluation, move: Move | None) -> None:
        """Report a candidate to the strategy, unless that happened before the run was resumed."""
        key, number = evaluation.candidate.key, None if move is None else move.number
        if (number, key) not in self._told:
            found = Scored.of(evaluation, move, self._workloads)
            self._journal.note(
                "tell", number, {"candidate": key, "score": found.score, "spread": found.spread}
            )
            self._tell(found)
        if self._begun:
            self.top_up()

    def top_up(self) -> None:
        """Request and start moves, as many as may be under way."""
        while not self._ended and not self._cancelled.is_set() and self._unsettled < self._services.width:
            if not self._services.room(self._unsettled) or (move := self._strategy.ask()) is None:
                return
            self._journal.add("ask", move.number, _record(move))
            self._moves[move.number] = move
            self._waiting.append(move.number)
            self._send(move)

    def __enter__(self) -> "Edits":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Cancel what is under way, keep what ends in time, and close the journal; a second call does nothing."""
        self._cancelled.set()
        for _ in self._threads:
            self._work.put(None)
        ends = time.monotonic() + _GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self._journal.close()

    @property
    def in_vain(self) -> bool:
        """Whether there are no more edits and none ever brought anything new."""
        return self._ended and not self._brought

    @property
    def _unsettled(self) -> int:
        return len(self._waiting) + len(self._untold)

    def _send(self, move: Move) -> None:
        future: Future[Reply] = Future()
        asked = replace(move, tried=self._tried.lines(move))
        request = replace(
            self._services.request,
            history=tuple(self._known.values()),
            cancelled=self._cancelled.is_set,
            left_s=self._services.left_s,
            emit=lambda _: None,  # events are reported from the run's own thread
        )

        def work() -> None:
            try:
                reply = self._editor(move).edit(asked, request)
                given_up = self._cancelled.is_set() and not reply.proposals and reply.failure
                if not given_up:  # else the move is carried out again when the run is resumed
                    self._journal.add("reply", move.number, reply.model_dump(mode="json"))
                future.set_result(reply)
            except BaseException as error:  # noqa: BLE001 - raised again where the reply is taken
                future.set_exception(error)

        self._replies[move.number] = future
        self._work.put(work)
        if len(self._threads) < self._services.width:
            name = f"edit-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._carry_out, name=name, daemon=True))
            self._threads[-1].start()

    def _carry_out(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _editor(self, move: Move) -> Editor:
        return next(
            (e for e in self._services.editors if move.operator in e.operators), self._services.editors[0]
        )

    def _take(self, number: int) -> Edit:
        left_s = self._services.left_s()
        reply = self._replies[number].result(None if left_s == float("inf") else max(0.0, left_s))
        self._waiting.popleft()
        del self._replies[number]
        move = self._moves[number]
        usable = [p for p in reply.proposals if p.language in self._services.request.languages]
        new = self._tried.new(usable)
        failure = reply.failure or (
            "" if new or not reply.proposals else self._tried.why_not(reply.proposals)
        )
        labels: list[JsonValue] = [_label(p) for p in new]
        self._journal.note("heard", number, {"kept": labels, "failure": failure})
        edit = self._hear(move, reply, new, failure)
        self._services.emit(
            "edit", number=number, operator=move.operator, usd=reply.usd, kept=len(new),
            brought=len(reply.proposals), failure=failure,
        )  # fmt: skip
        if self._fruitless >= (_MOST_FRUITLESS if self._brought else _MOST_UNPRODUCTIVE):
            raise InputError(f"the editors brought nothing new {self._fruitless} times in a row")
        return edit

    def _hear(self, move: Move, reply: Reply, new: tuple[Proposal, ...], failure: str) -> Edit:
        self._fruitless = 0 if new else self._fruitless + 1
        self._brought |= bool(new)
        if new:
            self._untold[move.number] = {_label(p) for p in new}
        elif failure:
            self._tried.failed(move, failure)
        kept = {"proposals": new, "failure": failure}
        self._strategy.heard(move, reply.model_copy(update=kept))
        return Edit(move, new)

    def _tell(self, found: Scored) -> None:
        number = found.move.number if found.move is not None else None
        self._told.add((number, found.key))
        self._tried.add(found)
        if number in self._untold:
            self._untold[number] -= {found.key, found.evaluation.candidate.template or ""}
            if not self._untold[number]:
                del self._untold[number]
        self._strategy.tell(found)

    def _replay(self) -> None:
        replies: dict[int, Reply] = {}
        for entry in self._journal.entries():
            move = self._moves.get(-1 if entry.number is None else entry.number)
            if entry.kind == "ask":
                self._ask_again(entry.record)
            elif entry.kind == "reply" and entry.number is not None:
                replies[entry.number] = Reply.model_validate(entry.record)
            elif entry.kind == "heard" and move is not None:
                self._waiting.remove(move.number)
                self._hear_again(move, replies[move.number], entry.record)
            elif entry.kind == "tell":
                evaluation = self._known[str(entry.record["candidate"])]
                score, spread = entry.record["score"], entry.record["spread"]
                assert not isinstance(score, str | list | dict), "a score is a number or nothing"
                self._tell(Scored(evaluation, score, move, float(str(spread))))
        for number in self._waiting:
            if number in replies:
                self._replies[number] = Future()
                self._replies[number].set_result(replies[number])
            else:
                self._send(self._moves[number])

    def _ask_again(self, record: dict[str, JsonValue]) -> None:
        move = self._strategy.ask()
        if move is None or _record(move) != record:
            raise InputError(
                f"the run's strategy asked for {record} where it now asks for {move and _record(move)}: it was "
                "another version or had other settings; start a new run with `kernelwright optimize`"
            )
        self._moves[move.number] = move
        self._waiting.append(move.number)

    def _hear_again(self, move: Move, reply: Reply, record: dict[str, JsonValue]) -> None:
        kept = record["kept"]
        labels = kept if isinstance(kept, list) else []
        new = tuple(p for p in reply.proposals if _label(p) in labels)
        self._tried.new(new)
        edit = self._hear(move, reply, new, str(record["failure"]))
        if new:
            self._heard.append(edit)


def _label(proposal: Proposal) -> str:
    return proposal.key if isinstance(proposal, Candidate) else proposal.name


def _record(move: Move) -> dict[str, JsonValue]:
    return {
        "number": move.number,
        "operator": move.operator,
        "parents": [p.candidate.key for p in move.parents],
        "inspirations": [i.candidate.key for i in move.inspirations],
        "goal": move.goal,
        "model": move.model,
    }
