"""Flags of commands that may start a coding agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from ._common import Count, Positive

if TYPE_CHECKING:
    from ..flow import Options


@Parameter(name="*")
@dataclass(frozen=True)
class Agents:
    """Which coding agent, and how far each piece of its work may go."""

    agent: str = ""
    """Coding agent that writes kernels: `claude`, `codex`, or a command line, in which `{prompt}` stands for what it
    is told. By itself it is one more proposer; with `--editor agent` the strategy sends it to work."""
    agent_minutes: Positive | None = None
    """Most minutes for one piece of an agent's work; 15 by default."""
    agent_judgements: Count | None = None
    """How often an agent may ask the judge in one piece of work; 20 by default."""

    @property
    def options(self) -> "Options":
        """What is kept with the run; what was not given is left out."""
        given: Options = {
            "agent": self.agent,
            "agent_minutes": self.agent_minutes,
            "agent_judgements": self.agent_judgements,
        }
        return {name: value for name, value in given.items() if value}

    def proposers(self, editors: Sequence[str]) -> tuple[str, ...]:
        """Return the proposer that goes with the agent, whoever else proposes, unless it is an editor already."""
        return ("agent",) if self.agent and "agent" not in editors else ()
