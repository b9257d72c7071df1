"""Statements → assembly for the tile accelerator, or C for RISC-V: the baselines of the tasks.

`Plan()` is the naive form that scores are relative to: row by row, every intermediate value back to memory, no tile
unit. Other plans keep arrays in the scratchpad, unroll and use tiles; `plans()` lists them.
"""

from ._c import c_source
from ._generate import Plan, compile_task, plans

__all__ = ["Plan", "c_source", "compile_task", "plans"]
