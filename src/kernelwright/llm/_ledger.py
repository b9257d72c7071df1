"""The budget of one run: every attempt is charged before it is made and settled afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..store import Calls
from ._failure import CallFailed
from ._protocol import Completion


class Charge:
    """One charged attempt."""

    def __init__(self) -> None:
        self.completion: Completion | None = None
        """Set it when there is an answer."""


class Ledger:
    """Enforces a run's cap on the cost of its calls and stores their answers.

    An answer settles at its cost. A failure that is never billed settles at zero, any other at the most it could
    cost. If the process dies in between, the reservation stays and counts in full.

    Covers: concurrent threads; a run killed and resumed: a repeated question is answered from the ledger for free,
    so nothing is paid for twice.
    Does not cover: a call that was under way when the process died; it is repeated, and both count.
    """

    def __init__(self, calls: Calls, run: str, cap_usd: float | None) -> None:
        self._calls = calls
        self._run = run
        self.cap_usd = cap_usd
        """The most that the run may spend. None means no limit."""

    @property
    def spent_usd(self) -> float:
        """What the run has spent, including calls under way in full."""
        return self._calls.spent_usd(self._run)

    def kept(self, key: str) -> Completion | None:
        """Return the stored answer to a question that the run asked before."""
        reply = self._calls.reply(self._run, key)
        return None if reply is None else Completion.from_json(reply)

    @contextmanager
    def charge(self, key: str, *, who: str, purpose: str, most_usd: float, request: str) -> Iterator[Charge]:
        """Reserve the most that an attempt can cost, and settle its actual cost at the end.

        Raises:
            SpentError: the cap does not allow it.
        """
        number = self._calls.reserve(
            self._run, key=key, who=who, purpose=purpose, usd=most_usd, cap_usd=self.cap_usd, request=request
        )
        charge = Charge()
        try:
            yield charge
        except CallFailed as failure:
            self._calls.settle(number, most_usd if failure.billed else 0.0)
            raise
        except BaseException:
            self._calls.settle(number, most_usd)
            raise
        answer = charge.completion
        if answer is None:
            self._calls.settle(number, most_usd)
        else:
            usage = {name: count for name, count in answer.usage.model_dump().items() if count}
            self._calls.settle(number, answer.cost_usd, usage=usage, reply=answer.to_json())
