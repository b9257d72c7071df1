"""Runs a proposer that waits for a model or agent in a thread, so that others continue meanwhile."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace

from ...propose import Proposal, Proposer, Request
from ...records import Evaluation

_POLL_S = 0.1
"""Seconds between two polls for an answer."""


def proposed(proposer: Proposer, request: Request) -> Iterator[Proposal | None]:
    """Yield a proposer's proposals, and None now and then while it waits for an answer.

    A proposer with `waits` set is asked in a thread, for one proposal at a time, with the evaluations so far.
    Once it has to ask again, None is yielded until its next proposal arrives.
    """
    if not getattr(proposer, "waits", False):
        yield from proposer.propose(request)
        return
    over, known, said, troubles = threading.Event(), list[Evaluation](), list[str](), list[str]()
    own = replace(
        request, history=known, cancelled=lambda: over.is_set() or request.cancelled(), emit=said.append,
        troubled=troubles.append,
    )  # fmt: skip
    proposals = iter(proposer.propose(own))
    try:
        while True:
            known[:], told = request.history, False
            found = _begun(lambda: next(proposals, None))
            while not found.done():
                wait([found], timeout=_POLL_S)
                if troubles and not told:
                    told = True
                    request.emit(f"{proposer.name} asks again: {troubles[0]}")
                if troubles and not found.done():
                    yield None
            while said:
                request.emit(said.pop(0))
            troubles.clear()
            if (proposal := found.result()) is None:
                return
            yield proposal
    finally:
        over.set()


def _begun(work: Callable[[], Proposal | None]) -> "Future[Proposal | None]":
    """Run the work in a daemon thread."""
    future: Future[Proposal | None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)

    threading.Thread(target=run, name="concurrent", daemon=True).start()
    return future
