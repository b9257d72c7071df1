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
    """Which coding agent, and its limits per piece of work."""

    agent: str = ""
    """Coding agent that writes kernels: `claude`, `codex`, or a command line, in which `{prompt}` is replaced by the
    prompt. On its own it is an additional proposer; with `--editor agent` the strategy directs it."""
    agent_minutes: Positive | None = None
    """Most minutes for one piece of an agent's work; 15 by default."""
    agent_judgements: Count | None = None
    """How often an agent may ask the judge in one piece of work; 20 by default."""

    @property
    def options(self) -> "Options":
        """The options stored with the run; flags not given are left out."""
        given: Options = {
            "agent": self.agent,
            "agent_minutes": self.agent_minutes,
            "agent_judgements": self.agent_judgements,
        }
        return {name: value for name, value in given.items() if value}

    def proposers(self, editors: Sequence[str]) -> tuple[str, ...]:
        """Return the agent's proposer, in addition to other proposers, unless the agent is an editor already."""
        return ("agent",) if self.agent and "agent" not in editors else ()
