"""Small changes of parameters and buffers at secret places, each of which a kernel's packed copy has to follow.

Covers: fingerprints over a part of the elements (wherever they lie), over sums, norms and other figures that are the
same after two elements are swapped, and over values that are rounded before they are compared.
Does not cover: a checksum that depends on every element's place. If it has b bits, one change goes by it with
probability 2**-b, so that `n` changes see it with 1 - (1 - 2**-b)**n.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ._case import same_bits

Kind = Literal["large", "small", "block", "swap", "opposite"]
KINDS: tuple[Kind, ...] = ("small", "swap", "large", "opposite", "block")
"""One element by a large or a small amount, a few neighbours, two elements exchanged, one up and one down alike."""
PARTS = 16
"""Equal parts of a tensor, which are visited in secret order, so that no large part is left out by chance."""
BLOCK = 8
"""Neighbouring elements that a `block` changes."""
STEPS: dict[Kind, tuple[float, ...]] = {
    "large": (2.0, 8.0), "small": (1 / 16, 1 / 2, 4.0), "block": (1.0, 4.0), "swap": (0.0, 0.0, 0.0),
    "opposite": (1 / 4, 2.0, 8.0),
}  # fmt: skip
"""Amounts in units of the tensor's root mean square, tried in order until the change shows in the answer."""


@dataclass(frozen=True)
class Change:
    """One change: of which tensors, how, and in which part of them."""

    names: tuple[str, ...]
    """Tensors that hold the same bits, as tied weights do; they change alike."""
    kind: Kind
    part: int
    """Which of `PARTS`."""
    seed: int
    """Of the place within the part."""


def plan(state: Mapping[str, torch.Tensor], count: int, seed: int) -> Iterator[Change]:
    """Yield changes of the tensors in turn, kinds and parts of each in secret order.

    Example:
        >>> changes = list(plan({"weight": torch.randn(64)}, 10, seed=1))
        >>> len(changes), sorted({c.kind for c in changes})
        (10, ['block', 'large', 'opposite', 'small', 'swap'])
    """
    groups = _tied(state)
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(groups), generator=random).tolist()
    parts = [torch.randperm(PARTS, generator=random).tolist() for _ in groups]
    first = [int(torch.randint(len(KINDS), (), generator=random)) for _ in groups]
    for number in range(count):
        visit, which = divmod(number, len(groups))
        group = order[which]
        kind = KINDS[(first[group] + visit) % len(KINDS)]
        yield Change(groups[group], kind, parts[group][visit % PARTS], seed * count + number)


def apply(value: torch.Tensor, change: Change, step: int) -> torch.Tensor | None:
    """Return a changed copy; none where the tensor allows no change of this kind.

    Booleans are flipped and integers exchanged with others of the tensor, so that indices stay in range. What is
    nowhere negative, or nowhere positive, stays so, and what is nowhere zero as well.
    """
    if not value.numel() or value.is_complex():
        return None
    flat = value.clone(memory_format=torch.contiguous_format).view(-1)
    random = torch.Generator().manual_seed(change.seed + step)
    first, end = (flat.numel() * p // PARTS for p in (change.part, change.part + 1))
    place = int(torch.randint(first, max(first + 1, end), (), generator=random)) % flat.numel()
    other = int(torch.randint(flat.numel(), (), generator=random))
    if value.dtype is torch.bool:
        flat[place : place + (BLOCK if change.kind == "block" else 1)].logical_not_()
    elif change.kind == "swap" or not value.is_floating_point():
        flat[[place, other]] = flat[[other, place]]
    else:
        _move(flat, place, other, change.kind, STEPS[change.kind][step])
    return None if same_bits(flat, value.reshape(-1)) else flat.view(value.shape)


def _move(flat: torch.Tensor, place: int, other: int, kind: Kind, amount: float) -> None:
    """Add an amount to an element or a few, and take it from another where the change is `opposite`.

    What is nowhere negative loses half of an element at most: a variance of zero, which no seed draws, would be
    infinite in some right evaluations and NaN in others. What is nowhere positive moves the other way.
    """
    wide = flat.double()
    amount *= float(wide.square().mean().sqrt()) or 1.0
    one_signed = bool((wide >= 0).all()) or bool((wide <= 0).all())
    if one_signed and kind == "opposite":
        amount = min(amount, float(wide[other].abs()) / 2)
    if one_signed and bool((wide < 0).any()):
        amount = -amount
    if kind == "opposite":
        flat[other] -= amount
    flat[place : place + (BLOCK if kind == "block" else 1)] += amount


def _tied(state: Mapping[str, torch.Tensor]) -> Sequence[tuple[str, ...]]:
    """Group the names of tensors that hold the same bits."""
    groups: list[list[str]] = []
    for name, value in state.items():
        for group in groups:
            if same_bits(state[group[0]], value):
                group.append(name)
                break
        else:
            groups.append([name])
    return [tuple(group) for group in groups]
