"""Move → Reply, by a coding agent in a workspace of its own."""

from ._writing import writing

__all__ = ["writing"]
