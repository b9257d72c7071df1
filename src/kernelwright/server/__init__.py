"""MCP server for coding agents; every tool is a command of the command line.

The judge runs in a separate process, which the server can kill at any moment; finished judgements are already in the
store. The server itself imports no torch and runs no code of a task or a candidate. `mcp.py` is the server (it
needs the official SDK), `_tools.py` its tools, `guide.md` the guide for agents.
"""

from ._guide import guide

__all__ = ["guide"]
