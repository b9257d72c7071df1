"""Pooling: max and mean over windows of one, two or three axes, and adaptive means and maxima."""

from ._match import match

__all__ = ["match"]
