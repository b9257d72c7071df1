"""The adapter interface of an agent: its command line, and how to read its cost from its output."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Job:
    """The job of an agent."""

    prompt: str
    """Its prompt; the rest is in the workspace's README.md."""
    workspace: Path
    """The folder it works in."""
    usd: float | None = None
    """The most it may cost. None means no limit."""
    model: str = ""
    """The model to use; the agent's own choice if empty."""


@dataclass(frozen=True)
class Spend:
    """An agent's cost and failure, as far as it reports them."""

    usd: float | None = None
    """Money. None if not reported."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind."""
    failure: str = ""
    """The reported error, such as an invalid key; empty if none."""


@runtime_checkable
class Agent(Protocol):
    """One coding agent; `kernelwright.agents` entry point, a class or function that takes nothing."""

    name: str
    """Name shown to people and stored in records."""
    says_usd: bool
    """Whether its output reports its cost and it enforces `Job.usd`."""
    environment: Sequence[str]
    """Environment variables it receives, as patterns: `ANTHROPIC_*`. They include its own keys, and no others."""
    home: Sequence[str]
    """Files and folders in the home folder that it writes: its settings and sessions."""

    def command(self, job: Job) -> list[str]:
        """Return the command line."""
        ...

    def spend(self, output: str) -> Spend:
        """Read its cost and failure from its output; empty if it has none."""
        ...


def json_lines(output: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of an output that are JSON objects, skipping everything else.

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
    """Return the counts in a usage object, ignoring everything else."""
    counted = usage.items() if isinstance(usage, dict) else ()
    return {str(n): c for n, c in counted if isinstance(c, int) and not isinstance(c, bool) and c >= 0}
