"""Codex, non-interactively.

Source: developers.openai.com/codex, "Non-interactive mode".
"""

from collections import Counter
from collections.abc import Sequence

from ._protocol import Job, Spend, json_lines, tokens


class Codex:
    """`codex exec --json`; every completed turn reports its tokens, but not its cost."""

    name = "codex"
    says_usd = False
    environment: Sequence[str] = ("OPENAI_*", "CODEX_*")
    home: Sequence[str] = (".codex",)

    def command(self, job: Job) -> list[str]:
        """Return the command line."""
        line = ["codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write"]
        line += ["--cd", str(job.workspace), *(("--model", job.model) if job.model else ())]
        return [*line, job.prompt]

    def spend(self, output: str) -> Spend:
        """Add up the tokens of all turns, and return the last error that was not recovered from.

        Example:
            >>> turn = '{"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 2}}'
            >>> dict(Codex().spend(f"{turn}\\n{turn}").usage)
            {'input_tokens': 10, 'output_tokens': 4}
        """
        total: Counter[str] = Counter()
        failure = ""
        for line in json_lines(output):
            if line.get("type") == "turn.completed":
                total.update(tokens(line.get("usage")))
                failure = ""
            elif line.get("type") == "turn.failed":
                error = line.get("error")
                failure = str(error.get("message") if isinstance(error, dict) else error)
            elif line.get("type") == "error":
                failure = str(line.get("message"))
        return Spend(usage=dict(total), failure=failure)
