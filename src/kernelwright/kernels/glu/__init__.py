"""Gated linear units: pointwise functions of the parts that a tensor is split into along one axis."""

from ._match import match, part_of

__all__ = ["match", "part_of"]
