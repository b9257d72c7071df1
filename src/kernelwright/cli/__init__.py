"""The command line. One file per command, imported when the command is called."""

from ._app import main

__all__ = ["main"]
