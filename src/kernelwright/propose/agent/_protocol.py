"""What an adapter must do: say how an agent is started, and read from what it said what it cost."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Job:
    """What an agent is started for."""

    prompt: str
    """What it is told; the rest is in the workspace's README.md."""
    workspace: Path
    """The folder it works in."""
    usd: float | None = None
    """The most it may cost; none is no limit."""
    model: str = ""
    """The model to use; the agent's own choice where it is empty."""


@dataclass(frozen=True)
class Spend:
    """What an agent's work cost and why it failed, as far as it says."""

    usd: float | None = None
    """Money; none where it does not say."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind."""
    failure: str = ""
    """What it says went wrong, such as a key that is not valid; empty where it says nothing."""


@runtime_checkable
class Agent(Protocol):
    """One coding agent; `kernelwright.agents` entry point, a class or function that takes nothing."""

    name: str
    """For people and for the records."""
    says_usd: bool
    """Whether its output says what it cost, and it keeps to `Job.usd`."""
    environment: Sequence[str]
    """Variables that it is given, as patterns: `ANTHROPIC_*`. Its keys are among them, nobody else's."""
    home: Sequence[str]
    """Files and folders below the home folder that it writes: its settings and sessions."""

    def command(self, job: Job) -> list[str]:
        """Return the command line."""
        ...

    def spend(self, output: str) -> Spend:
        """Read from its output what it cost and what went wrong; nothing where there is nothing to read."""
        ...


def json_lines(output: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of an output that are JSON objects, whatever else is between them.

    Example:
        >>> list(json_lines('starting\\n{"type": "result"}\\n[1]\\n{broken'))
        [{'type': 'result'}]
    """
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def tokens(usage: object) -> dict[str, int]:
    """Return the counts in a usage object, whatever else is in it."""
    counted = usage.items() if isinstance(usage, dict) else ()
    return {str(n): c for n, c in counted if isinstance(c, int) and not isinstance(c, bool) and c >= 0}
