"""Temporaries of a program → places in one piece of memory: those that are never needed together share a place."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...graph import Size, product
from ...tile import Buffer, Contraction, Kernel, touched

_LINE = 64
"""Bytes of a cache line: every place begins with one."""


@dataclass(frozen=True)
class Places:
    """Where temporaries lie."""

    offsets: dict[str, int]
    """Buffer → bytes from the beginning."""
    size_bytes: int
    """Of all."""


def places_of(buffers: Sequence[Buffer], steps: Sequence[Kernel | Contraction]) -> Places:
    """Give each temporary a place, the first that is free from its first step to its last.

    What a step wrote is then still in the caches when a later step writes there again: a network's values take as much
    memory as the few that are alive at once.

    Args:
        buffers: Temporaries, of fixed sizes.
        steps: What runs, in order.
    """
    lives = dict[str, tuple[int, int]]()
    for at, step in enumerate(steps):
        for names in touched(step):
            for name in names:
                lives[name] = (lives.get(name, (at, at))[0], at)
    sizes = {b.name: -(-_bytes(b) // _LINE) * _LINE for b in buffers if b.name in lives}
    offsets = dict[str, int]()
    for name in sorted(sizes, key=lambda n: (lives[n][0], -sizes[n])):
        taken = sorted((offsets[n], sizes[n]) for n in offsets if _meet(lives[n], lives[name]))
        offset = 0
        for begin, size in taken:
            if begin >= offset + sizes[name]:
                break
            offset = max(offset, begin + size)
        offsets[name] = offset
    return Places(offsets, max((offsets[n] + sizes[n] for n in offsets), default=0))


def is_fixed(b: Buffer) -> bool:
    """Tell whether the size of a buffer is the same in every call."""
    return not any(isinstance(size, Size) for size in b.shape)


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _bytes(b: Buffer) -> int:
    return int(product(b.shape)) * int(getattr(torch, b.dtype).itemsize)
