"""The MCP server: one tool per command, and one-sentence errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from pydantic import ValidationError

from .. import __version__
from ..errors import known_names
from ._guide import guide
from ._tools import Tools

GUIDE_URI = "kernelwright://guide"
_INSTRUCTIONS = f"""Kernelwright judges the kernels you write: right against float64 on workloads that you have not
seen, faster than the better of eager and torch.compile. Read the resource {GUIDE_URI} first. In short:
describe_task, bound, search_lessons; write a kernel; judge it until it is right and fast; submit it; export it."""


class _Server(MCPServer[None]):
    """An MCP server whose errors are one sentence: what was given, and what is expected."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool by its name."""
        known = {tool.name: tool for tool in await self.list_tools()}
        if name not in known:
            raise ToolError(f"no tool is called {name!r}; {known_names(name, known)}")
        takes = known[name].input_schema.get("properties", {})
        unknown = [repr(argument) for argument in arguments if argument not in takes]
        if unknown:
            raise ToolError(f"{name} takes no {', '.join(unknown)}; it takes {', '.join(takes) or 'nothing'}")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            raise ToolError(_sentence(name, error)) from error


def make_server(store: Path) -> tuple[MCPServer[None], Tools]:
    """Make the server and the tools behind it, which are closed when the server is done.

    Args:
        store: Folder of the run store.
    """
    tools = Tools(store)

    @asynccontextmanager
    async def serving(_: MCPServer[None]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await tools.rest()

    server = _Server(
        "kernelwright", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING", lifespan=serving
    )
    for tool in tools.all():
        server.add_tool(tool, structured_output=False)
    server.resource(GUIDE_URI, name="guide", mime_type="text/markdown")(guide)
    return server, tools


def _sentence(name: str, error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}, given {e['input']!r}" for e in cause.errors()]
        return f"{name} cannot use its arguments ({'; '.join(wrong)})"
    return str(cause) if isinstance(cause, ToolError) else str(error)
