"""Any other agent, given as a command line."""

import shlex
from collections.abc import Sequence

from ._protocol import Job, Spend


class Command:
    """Runs a command in the workspace. `{prompt}` in it is replaced by the prompt.

    Covers: agents that need no key, or have theirs in files that they may read.
    Does not cover: its cost; such an agent is not started under a cap on money.

    Example:
        >>> from pathlib import Path
        >>> Command("my-agent --task '{prompt}'").command(Job("do it", Path("/w")))
        ['my-agent', '--task', 'do it']
    """

    name = "command"
    says_usd = False
    environment: Sequence[str] = ()
    home: Sequence[str] = ()

    def __init__(self, line: str) -> None:
        self._words = shlex.split(line)

    def command(self, job: Job) -> list[str]:
        """Return the command line."""
        return [word.replace("{prompt}", job.prompt) for word in self._words]

    def spend(self, output: str) -> Spend:
        """Return an empty cost: such a command has no known way of reporting it."""
        del output
        return Spend()
