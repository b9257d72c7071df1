"""Task → Candidates by a coding agent, without a strategy: one draft, refined until the agent stops."""

from collections.abc import Iterator
from contextlib import closing

from ...errors import ModelError
from ...store import Journal
from .._protocol import Move, Proposal, Reply, Request
from .editor import AgentEditor

_KIND = "agent"


class AgentProposer:
    """Lets an agent draft a kernel; it asks our judge while working, and leaves its best.

    Covers: a resumed run: an agent that finished is not started, nor paid, a second time.
    """

    name = "agent"

    def __init__(self, editor: AgentEditor | None = None) -> None:
        self._editor = editor or AgentEditor()

    def propose(self, request: Request) -> Iterator[Proposal]:
        """Yield the agent's result.

        Raises:
            InputError: the agent cannot enforce the run's cap on money.
            NotFoundError: there is no such agent.
            ModelError: it left nothing usable; the message explains why.
        """
        reply = self._reply(request)
        if not reply.proposals:
            raise ModelError(reply.failure)
        yield from reply.proposals

    def _reply(self, request: Request) -> Reply:
        move = Move(number=0, operator="draft")
        if request.store is None:
            return self._editor.edit(move, request)
        with closing(Journal(request.store, request.run)) as journal:
            for entry in journal.entries():
                if entry.kind == _KIND:
                    return Reply.model_validate(entry.record)
            reply = self._editor.edit(move, request)
            if not request.cancelled():
                journal.add(_KIND, 0, reply.model_dump(mode="json"))
            return reply
