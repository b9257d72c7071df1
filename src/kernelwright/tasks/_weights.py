"""Which of a candidate module's weights stand for which of the problem's, where they have other names.

The problem's module and the candidate are made under one seed, as benchmarks do. What then has the same values, bit by
bit, sizes and dtype is taken for the same weight. Whatever pairs are found so, each weight goes to one place and no two
to the same: a candidate that is right on secret weights given by them is right, wherever they are. Values cannot make
a wrong candidate pass; they can only be missing.

Covers: other names; other layouts, and weights multiplied by a number (`_packed.py`); further tensors, which stay as
they were made, so that a weight folded into one goes stale, a second copy too; a module that reads the seed, the values
or this text, as it is judged on other weights; gradients, which are asked for by the same names and in the same layout.
Does not cover: weights of another dtype, or multiplied by a number for each row.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import torch

from ..errors import WorkerError
from ..records import Packing, Workload
from ._packed import packings
from ._problem import Problem

_MOST_NAMED = 6


class HoldsState(Protocol):
    """A worker with a module."""

    @property
    def loaded(self) -> "MadeUnder":
        """Say what it holds."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers."""
        ...

    def rename(self, names: Mapping[str, str], own: Sequence[str], packings: Sequence[Packing]) -> None:
        """Take and return them by other names, and in other layouts, from now on."""
        ...


class MadeUnder(Protocol):
    """What is known of how a module was made."""

    @property
    def seed(self) -> int:
        """Torch's seed as it was made."""
        ...

    @property
    def state(self) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        """Names, sizes and dtypes."""
        ...


@dataclass(frozen=True)
class Pairs:
    """Weights that stand for each other."""

    names: Mapping[str, str]
    """The candidate's name for each of the problem's."""
    guessed: tuple[str, ...] = ()
    """Those of the problem's that others equal, such as scales of one, so that only their order told them apart."""
    missing: tuple[str, ...] = ()
    """Those of the problem's for which there is none."""
    own: tuple[str, ...] = ()
    """Those of the candidate's that stand for none."""
    packings: tuple[Packing, ...] = ()
    """Those of the candidate's that hold some of the problem's in another layout."""


def pairs(wanted: Mapping[str, torch.Tensor], held: Mapping[str, torch.Tensor]) -> Pairs:
    """Pair the problem's weights with a candidate's, both made under the same seed.

    Names decide where all of the problem's are there, with their sizes and dtypes. Else values do; among equal ones the
    same name, then the same last part of the name, then the order. What is left may be stored in another layout.

    Example:
        >>> weight, scale = torch.randn(3, 2), torch.ones(3)
        >>> found = pairs({"fc.weight": weight, "n.weight": scale}, {"w": weight.clone(), "g": scale, "t": weight.T})
        >>> dict(found.names), found.own, found.guessed
        ({'fc.weight': 'w', 'n.weight': 'g'}, ('t',), ())
        >>> [packing.names for packing in pairs({"fc.weight": weight}, {"t": weight.T}).packings]
        [('fc.weight',)]
    """
    if all(n in held and held[n].shape == t.shape and held[n].dtype == t.dtype for n, t in wanted.items()):
        return Pairs({n: n for n in wanted}, own=tuple(n for n in held if n not in wanted))
    by_value: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in held.items():
        by_value.setdefault(_value(tensor), []).append(name)
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, tensor in wanted.items():
        groups.setdefault(_value(tensor), []).append(name)
    names: dict[str, str] = {}
    guessed: list[str] = []
    for value, alike in groups.items():
        free = by_value.get(value, [])
        found = _in_order(alike, list(free))
        if max(len(alike), len(free)) > 1 and wanted[alike[0]].is_floating_point():
            guessed += [n for n in found if n != found[n]]
        names |= found
    taken = {*names.values()}
    packed, doubtful = packings(
        {n: t for n, t in wanted.items() if n not in names}, {n: t for n, t in held.items() if n not in taken}
    )
    found_in = {n for packing in packed for n in packing.names}
    taken |= {packing.name for packing in packed}
    return Pairs(
        {n: names[n] for n in wanted if n in names},
        (*guessed, *doubtful),
        tuple(n for n in wanted if n not in names and n not in found_in),
        tuple(n for n in held if n not in taken),
        packed,
    )


def fit_state(problem: Problem, workload: Workload, worker: HoldsState) -> tuple[str, ...]:
    """Let a worker with a module take the problem's weights by its own names for them, where they are others.

    Returns:
        Names of the problem's weights that only their order told apart: a wrong answer may be due to that.

    Raises:
        WorkerError: some of the problem's weights are not told among the module's.
    """
    wanted = {s.name: (s.shape, s.dtype) for s in workload.state}
    has = {name: (shape, dtype) for name, shape, dtype in worker.loaded.state}
    if not wanted or wanted == has:
        return ()
    if all(has.get(name) == known for name, known in wanted.items()):
        found = Pairs({n: n for n in wanted}, own=tuple(n for n in has if n not in wanted))
    else:
        found = pairs(problem.made(workload, worker.loaded.seed), worker.state())
    if found.missing and found.own:
        sizes = {name: shape for name, (shape, _) in wanted.items()}
        raise WorkerError(
            f"which of the kernel's weights are the problem's is not told: made under the same seed, none of its "
            f"{listed(found.own, {n: s for n, (s, _) in has.items()})} has the name and sizes, or the values in some "
            f"layout, of the problem's {listed(found.missing, sizes)}"
        )
    worker.rename(found.names, found.own, found.packings)
    return found.guessed


def listed(names: Sequence[str], sizes: Mapping[str, tuple[int, ...]] = MappingProxyType({})) -> str:
    """Name weights for a message, with their sizes where these are given; the first few of many.

    Example:
        >>> listed(["a", "b"]), listed(["a"], {"a": (2, 3)})
        ("'a', 'b'", "'a' [2, 3]")
    """
    rest = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    shown = (f"{n[:80]!r} {list(sizes[n])}" if n in sizes else repr(n[:80]) for n in names[:_MOST_NAMED])
    return ", ".join(shown) + rest


def _in_order(wanted: Sequence[str], free: list[str]) -> dict[str, str]:
    """Give each wanted name a free one: the same, then one with the same last part, then the next."""
    names: dict[str, str] = {}
    for key in (lambda n: n, lambda n: n.rpartition(".")[2], lambda _: ""):
        for name in wanted:
            match = next((f for f in free if key(f) == key(name)), None)
            if name not in names and match is not None:
                names[name] = match
                free.remove(match)
    return names


def _value(tensor: torch.Tensor) -> tuple[object, ...]:
    """Return what two tensors have in common if they are the same bit by bit."""
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return tensor.dtype, tuple(tensor.shape), hashlib.blake2b(content.data).digest()
