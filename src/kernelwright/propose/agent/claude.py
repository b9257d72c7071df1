"""Claude Code, non-interactively.

Source: code.claude.com, "CLI reference" and "Run Claude Code programmatically".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ._protocol import Job, Spend, json_lines, tokens


class Claude:
    """`claude --print`; its last line, of type `result`, reports its cost and how it ended.

    Does not cover: the turn in which `--max-budget-usd` is reached, which it finishes before it stops.
    """

    name = "claude"
    says_usd = True
    environment: Sequence[str] = ("ANTHROPIC_*", "CLAUDE_*")
    home: Sequence[str] = (".claude", ".claude.json", ".config/claude", ".cache/claude")

    def command(self, job: Job) -> list[str]:
        """Return the command line."""
        line = ["claude", "--print", job.prompt, "--output-format", "stream-json", "--verbose"]
        line += ["--allowedTools", "Bash,Read,Edit,Write,Glob,Grep", "--strict-mcp-config"]
        if job.model:
            line += ["--model", job.model]
        if job.usd is not None:
            line += ["--max-budget-usd", f"{job.usd:.4f}"]
        return line

    def spend(self, output: str) -> Spend:
        """Read the cost and the failure from the last result.

        Example:
            >>> Claude().spend('{"type": "result", "total_cost_usd": 0.25, "usage": {"output_tokens": 7}}').usd
            0.25
        """
        results = [line for line in json_lines(output) if line.get("type") == "result"]
        if not results:
            return Spend()
        cost = results[-1].get("total_cost_usd")
        usd = float(cost) if isinstance(cost, int | float) and cost >= 0 else None
        return Spend(usd, tokens(results[-1].get("usage")), _failure(results[-1]))


def _failure(result: Mapping[str, Any]) -> str:
    """Return the failure of a result: its text or errors, else its subtype, such as `error_max_budget_usd`."""
    kind = str(result.get("subtype") or "")
    failed = bool(result.get("is_error")) or kind.startswith("error")
    errors = result.get("errors")
    listed = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    return str(result.get("result") or listed or kind) if failed else ""
