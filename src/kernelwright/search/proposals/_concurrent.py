"""A proposer that waits for somebody outside, asked in a thread: while nobody answers, others go on."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace

from ...propose import Proposal, Proposer, Request
from ...records import Evaluation

_NAP_S = 0.1
"""Seconds between two looks at whether there is an answer."""


def proposed(proposer: Proposer, request: Request) -> Iterator[Proposal | None]:
    """Yield what a proposer proposes, and nothing, now and then, while whom it asks gives no answer.

    One that says of itself that it `waits` is asked in a thread, for one proposal at a time, with what was evaluated
    until then. Once it was told that it must ask again, nothing is yielded until its next proposal is there.
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
                wait([found], timeout=_NAP_S)
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
    """Do something in a thread that ends with the process at the latest."""
    future: Future[Proposal | None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)

    threading.Thread(target=run, name="beside", daemon=True).start()
    return future
