"""Task → Candidates by a coding agent, without a strategy: one draft, worked on until the agent is content."""

from collections.abc import Iterator

from .._protocol import Move, Proposal, Request
from .editor import AgentEditor


class AgentProposer:
    """Lets an agent draft a kernel; it asks our judge as it goes, and leaves the best it has."""

    name = "agent"

    def __init__(self, editor: AgentEditor | None = None) -> None:
        self._editor = editor or AgentEditor()

    def propose(self, request: Request) -> Iterator[Proposal]:
        """Yield what the agent leaves; nothing where it leaves nothing that can be used.

        Raises:
            InputError: the agent cannot be held to the run's cap on money.
            NotFoundError: there is no such agent.
        """
        yield from self._editor.edit(Move(number=0, operator="draft"), request).proposals
