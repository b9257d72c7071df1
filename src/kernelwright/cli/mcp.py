"""`kernelwright mcp`: serves the tools for coding agents over MCP."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ..errors import MissingToolError
from ._common import Common


def mcp(
    *,
    guide: bool = False,
    port: Annotated[int | None, Parameter(validator=Number(gte=1, lte=65535))] = None,
    common: Common | None = None,
) -> int:
    """Serve Kernelwright's tools to a coding agent over MCP: on stdio, or on a loopback port.

    Args:
        guide: Print the guide for agents, and exit.
        port: Serve streamable HTTP at http://127.0.0.1:PORT/mcp, for programs of this machine only.
        common: Flags of every command.
    """
    if guide:
        from ..server import guide as text_of_guide

        print(text_of_guide())
        return 0
    try:
        from ..server.mcp import make_server
    except ModuleNotFoundError as error:
        raise MissingToolError(f"no package {error.name!r} here; pip install 'kernelwright[mcp]'") from error
    server, tools = make_server((common or Common()).folder)
    try:
        if port is None:
            server.run("stdio")
        else:
            server.run("streamable-http", host="127.0.0.1", port=port)
    finally:
        tools.close()
    return 0
