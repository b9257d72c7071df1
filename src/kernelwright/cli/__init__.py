"""The command line. One file per command, imported when the command is called."""

from ._app import main, program

__all__ = ["main", "program"]
