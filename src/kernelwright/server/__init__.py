"""What coding agents see: an MCP server whose every tool is a command of the command line.

The judge runs in a process of its own, which the server can kill at any moment; what was judged is in the
store by then. The server itself imports no torch and runs no code of a task or a candidate. `mcp.py` is the
server (it needs the official SDK), `_tools.py` what it offers, `guide.md` what an agent reads.
"""

from ._guide import guide

__all__ = ["guide"]
