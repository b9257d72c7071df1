"""A run's options → the agent they name, and whether it can be started."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import InputError, MissingToolError, NotFoundError, known_names
from ...records import Scalar
from ...registry import Registry
from ._protocol import Agent, Job
from .command import Command

PROMPT = "Read README.md in this folder and do the job it describes, to its end, without asking anything."
"""The prompt of an agent."""
_AGENTS = Registry("agents", "agent")


def make_agent(name: str) -> Agent:
    """Make an agent by name; an unknown name is taken as a command line.

    Raises:
        NotFoundError: there is neither an agent nor a program of that name.
    """
    if name in _AGENTS.names():
        made: Agent = _AGENTS.load(name)()
        return made
    words = name.split()
    if not words or shutil.which(words[0]) is None:
        raise NotFoundError(
            f"no agent is called {name!r}, and it is no command that is here; {known_names(name, _AGENTS.names())}"
        )
    return Command(name)


def check_agent(options: Mapping[str, Scalar | tuple[Scalar, ...]], usd: float | None) -> None:
    """Check that the agent of a run can be started, before anything is spent.

    Raises:
        NotFoundError: there is no such agent.
        MissingToolError: its program is missing.
        InputError: it cannot enforce the cap on money.
    """
    agent = make_agent(name_of(options))
    see_program(agent, agent.command(Job(PROMPT, Path())))
    see_cap(agent, usd)


def name_of(options: Mapping[str, Scalar | tuple[Scalar, ...]]) -> str:
    """Return the name of a run's agent."""
    return str(options.get("agent") or "claude")


def see_program(agent: Agent, command: Sequence[str]) -> None:
    """Raise a `MissingToolError` if an agent's program is missing."""
    if shutil.which(command[0]) is None:
        raise MissingToolError(
            f"agent {agent.name!r} is not here: no program {command[0]!r} on the PATH; install it and log in, or name "
            "another with --agent"
        )


def see_cap(agent: Agent, usd: float | None) -> None:
    """Raise an `InputError` if an agent cannot enforce a cap."""
    if usd is not None and not agent.says_usd:
        raise InputError(
            f"agent {agent.name!r} does not say what it costs, so it cannot be held to --usd {usd:g}; "
            "leave --usd out, or choose claude"
        )
