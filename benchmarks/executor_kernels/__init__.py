"""Kernels for the PTX executor: what they are given, what is right, and the faults that can be planted in them."""

from . import blocks, cub_blocks, hopper

FAMILIES = {**blocks.FAMILIES, **hopper.FAMILIES, **cub_blocks.FAMILIES}
"""Every family by its name; a module is a `.cu` file next to its Python."""
