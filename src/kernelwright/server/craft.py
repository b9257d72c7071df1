"""The tools of a craft session over MCP: write, assemble, run, trace, measure, submit.

Programs are data for a simulator, or run under an emulator in a process of their own, so the tools work in this
process.
"""

import json

from mcp.server.mcpserver import MCPServer

from .. import __version__
from ..craft import Session
from ..craft.loop import task_text

MANUAL_URI = "kernelwright://craft/manual"
TASK_URI = "kernelwright://craft/task"


def make_craft_server(session: Session) -> MCPServer[None]:
    """Make the server of one session.

    Args:
        session: The task, the instruction set and the tools.
    """
    server: MCPServer[None] = MCPServer(
        "kernelwright-craft", version=__version__, log_level="WARNING",
        instructions=f"Read {MANUAL_URI} and {TASK_URI}; write a program, run it until it is right, measure, submit.",
    )  # fmt: skip

    def write(text: str) -> str:
        """Take a whole program in place of the last one, and assemble it."""
        return json.dumps(session.write(text))

    def assemble() -> str:
        """Assemble the program; every error names its line."""
        return json.dumps(session.assemble())

    def run(seed: int = 1) -> str:
        """Run the program on the visible sizes, with inputs of that seed, and compare the result."""
        return json.dumps(session.run(max(0, seed)))

    def trace(start: int = 0, count: int = 40) -> str:
        """Show executed instructions: cycle, line, what each waited for, and what it wrote."""
        return json.dumps(session.trace(start, count))

    def measure() -> str:
        """Say what the program costs compared with the baseline, and which lines cost most."""
        return json.dumps(session.measure())

    def submit() -> str:
        """Judge the program on hidden sizes and inputs; the score counts."""
        return json.dumps(session.submit())

    def manual() -> str:
        """Return the manual of the instruction set."""
        return session.backend.manual()

    def task() -> str:
        """Return what is to be computed."""
        return task_text(session)

    for tool in (write, assemble, run, trace, measure, submit):
        server.add_tool(tool, structured_output=False)
    server.resource(MANUAL_URI, name="manual", mime_type="text/markdown")(manual)
    server.resource(TASK_URI, name="task", mime_type="text/plain")(task)
    return server
