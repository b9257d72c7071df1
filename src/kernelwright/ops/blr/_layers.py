"""Structured layers as modules: factors are packed once, and again when they change."""

import math
from typing import Any

import torch

from ...languages.prepared import Prepared
from .._core import checked
from . import reference
from ._convert import Report, blast_factors, check_sizes, monarch_factors
from ._functions import (
    check_blast,
    check_monarch,
    differentiated,
    packed_blast,
    packed_monarch,
    run_blast,
    run_monarch,
)

T = torch.Tensor


def _pack_monarch(weights: dict[str, T]) -> tuple[T, T]:
    return packed_monarch(weights["first"], weights["second"])


def _pack_blast(weights: dict[str, T]) -> tuple[T, T, T]:
    return packed_blast(weights["right"], weights["scale"], weights["left"])


class _Structured(torch.nn.Module):
    """A layer of factors, which `_prepared` packs."""

    bias: torch.nn.Parameter | None
    _prepared: Prepared

    def _begin(self, in_features: int, out_features: int, bias: bool) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.bias = torch.nn.Parameter(torch.zeros(out_features)) if bias else None
        self._forget()

    def _forget(self) -> None:
        raise NotImplementedError

    def _apply(self, fn: Any, recurse: bool = True) -> "torch.nn.Module":
        """Forget what was packed: moving a module to another dtype or device leaves no trace on its parameters."""
        self._forget()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    def _traced(self, x: T, *factors: T) -> bool:
        return torch.compiler.is_compiling() or differentiated(x, *factors)

    def _ended(self, x: T, out: T) -> T:
        out = out.view(*x.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias

    def _take(self, layer: torch.nn.Linear, factors: dict[str, T]) -> None:
        with torch.no_grad():
            for name, found in factors.items():
                setattr(self, name, torch.nn.Parameter(found))
            if layer.bias is not None:
                self.bias = torch.nn.Parameter(layer.bias.detach().clone())
        self._forget()


class MonarchLinear(_Structured):
    """A linear layer whose weight is a Monarch matrix.

    Args:
        in_features: Columns of the weight; a multiple of `blocks`.
        out_features: Its rows; a multiple of `groups`.
        rank: Of each block of the weight, when its rows are dealt out among groups.
        blocks: Of inputs.
        groups: Of outputs; as many as there are blocks by default.
        bias: Whether there is one.

    Raises:
        ArgumentError: sizes do not divide, or the rank is below 1.

    Example:
        >>> layer = MonarchLinear(64, 128, rank=4, blocks=4)
        >>> layer(torch.randn(3, 64)).shape, layer.first.shape, layer.second.shape
        (torch.Size([3, 128]), torch.Size([4, 16, 16]), torch.Size([4, 32, 16]))
    """

    @checked
    def __init__(
        self, in_features: int, out_features: int, rank: int, *, blocks: int = 4, groups: int | None = None,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        groups = groups or blocks
        check_sizes("blr.MonarchLinear", in_features, out_features, groups, blocks, rank)
        inner, each = in_features // blocks, out_features // groups
        self.first = torch.nn.Parameter(torch.randn(blocks, groups * rank, inner) / math.sqrt(inner))
        self.second = torch.nn.Parameter(torch.randn(groups, each, blocks * rank) / math.sqrt(blocks * rank))
        self._begin(in_features, out_features, bias)

    def _forget(self) -> None:
        self._prepared = Prepared(_pack_monarch, _pack_monarch, ("first", "second"))

    @classmethod
    def from_linear(
        cls, layer: torch.nn.Linear, rank: int, *, blocks: int = 4, groups: int | None = None
    ) -> tuple["MonarchLinear", Report]:
        """Return the nearest such layer to a dense one, and how near it is.

        Raises:
            ArgumentError: as `monarch_factors` raises.

        Example:
            >>> _, report = MonarchLinear.from_linear(torch.nn.Linear(32, 32), rank=8)  # the rank of its blocks
            >>> report.relative_error < 1e-5
            True
        """
        first, second, report = monarch_factors(layer.weight, groups or blocks, blocks, rank)
        bias = layer.bias is not None
        made = cls(layer.in_features, layer.out_features, rank, blocks=blocks, groups=groups, bias=bias)
        made._take(layer, {"first": first, "second": second})
        return made, report

    def forward(self, x: T) -> T:
        """Return x (..., in_features) times the weight, plus the bias."""
        rank = check_monarch(x, self.first, self.second)
        rows = x.reshape(-1, self.in_features)
        if self._traced(x, self.first, self.second):
            return self._ended(x, reference.monarch_of(rows, self.first, self.second))
        packed = self._prepared.follow(self.first, self.second)
        return self._ended(x, run_monarch(rows, *packed, rank, self.second.shape[1]))

    def extra_repr(self) -> str:
        """Say the sizes."""
        blocks, wide, _ = self.first.shape
        groups = self.second.shape[0]
        return f"{self.in_features}, {self.out_features}, rank={wide // groups}, blocks={blocks}, groups={groups}"


class BlastLinear(_Structured):
    """A linear layer whose weight is a BLAST matrix.

    Args:
        in_features: Columns of the weight; a multiple of `blocks`.
        out_features: Its rows; a multiple of `groups`.
        rank: Columns of the factors that blocks share.
        blocks: Of inputs.
        groups: Of outputs; as many as there are blocks by default.
        bias: Whether there is one.

    Raises:
        ArgumentError: sizes do not divide, or the rank is below 1.

    Example:
        >>> layer = BlastLinear(64, 128, rank=16, blocks=4)
        >>> layer(torch.randn(3, 64)).shape, layer.scale.shape
        (torch.Size([3, 128]), torch.Size([4, 4, 16]))
    """

    @checked
    def __init__(
        self, in_features: int, out_features: int, rank: int, *, blocks: int = 4, groups: int | None = None,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        groups = groups or blocks
        check_sizes("blr.BlastLinear", in_features, out_features, groups, blocks, rank)
        inner, each = in_features // blocks, out_features // groups
        self.right = torch.nn.Parameter(torch.randn(blocks, inner, rank) / math.sqrt(in_features))
        self.scale = torch.nn.Parameter(torch.randn(groups, blocks, rank))
        self.left = torch.nn.Parameter(torch.randn(groups, each, rank) / math.sqrt(rank))
        self._begin(in_features, out_features, bias)

    def _forget(self) -> None:
        self._prepared = Prepared(_pack_blast, _pack_blast, ("right", "scale", "left"))

    @classmethod
    def from_linear(
        cls,
        layer: torch.nn.Linear,
        rank: int,
        *,
        blocks: int = 4,
        groups: int | None = None,
        rounds: int = 40,
    ) -> tuple["BlastLinear", Report]:
        """Return such a layer near a dense one, and how near it is.

        Raises:
            ArgumentError: as `blast_factors` raises.

        Example:
            >>> _, report = BlastLinear.from_linear(torch.nn.Linear(32, 32), rank=16)
            >>> report.relative_error < report.low_rank_error
            True
        """
        right, scale, left, report = blast_factors(layer.weight, groups or blocks, blocks, rank, rounds)
        bias = layer.bias is not None
        made = cls(layer.in_features, layer.out_features, rank, blocks=blocks, groups=groups, bias=bias)
        made._take(layer, {"right": right, "scale": scale, "left": left})
        return made, report

    def forward(self, x: T) -> T:
        """Return x (..., in_features) times the weight, plus the bias."""
        check_blast(x, self.right, self.scale, self.left)
        rows = x.reshape(-1, self.in_features)
        if self._traced(x, self.right, self.scale, self.left):
            return self._ended(x, reference.blast_of(rows, self.right, self.scale, self.left))
        packed = self._prepared.follow(self.right, self.scale, self.left)
        return self._ended(x, run_blast(rows, *packed, self.left.shape[1]))

    def extra_repr(self) -> str:
        """Say the sizes."""
        groups, blocks, rank = self.scale.shape
        return f"{self.in_features}, {self.out_features}, rank={rank}, blocks={blocks}, groups={groups}"
