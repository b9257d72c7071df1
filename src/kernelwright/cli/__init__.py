"""The command line. One file a command, imported when the command is called."""

from ._app import main

__all__ = ["main"]
