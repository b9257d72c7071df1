"""Scans: cumulative sum and product along any axis; reversed, exclusive, masked."""

from ._match import match

__all__ = ["match"]
