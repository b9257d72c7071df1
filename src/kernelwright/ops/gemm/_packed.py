"""Packed: the right factor of a product as panels of 32 columns, in the order in which the kernel reads them."""

import torch

from ...languages.prepared import Prepared
from .._core import checked, refuse, told

_COLUMNS = 32
_ELEMENTS = {torch.bfloat16: 2, torch.int8: 4}
"""Inner elements that lie side by side: as many as make four bytes."""

T = torch.Tensor


def _panels(b: T) -> T:
    """Lay out (inner, columns) as panels, zeros where they are not filled."""
    together = _ELEMENTS.get(b.dtype)
    padded = torch.nn.functional.pad(b, (0, -b.shape[1] % _COLUMNS))
    if together is None:
        parts = padded.unflatten(1, (-1, 2, 16))  # type: ignore[no-untyped-call]  # torch does not annotate it
        straight: T = parts.permute(1, 0, 2, 3).contiguous()
        return straight
    padded = torch.nn.functional.pad(padded, (0, 0, 0, -b.shape[0] % together))
    parts = padded.unflatten(0, (-1, together)).unflatten(2, (-1, _COLUMNS))  # type: ignore[no-untyped-call]  # torch does not annotate it
    panels: T = parts.permute(2, 0, 3, 1).contiguous()
    return panels if b.dtype is torch.bfloat16 else (panels.to(torch.int16) + 128).to(torch.uint8)


class Packed:
    """The right factor (inner, columns) of products; `pack` makes it."""

    def __init__(self, b: T, *, follow: bool) -> None:
        self.inner, self.columns = b.shape
        self.dtype = b.dtype
        """float32, bfloat16 or int8."""
        self.native = b if follow else None
        """The matrix that is followed; none if the panels are all there is."""
        self._prepared = Prepared(lambda: None, lambda held: _panels(held["b"].detach()), ("b",))
        self._frozen = None if follow else _panels(b.detach())

    @property
    def panels(self) -> T:
        """(panels, inner, 2, 16) float32, (panels, steps, 32, 2) bfloat16 or (panels, steps, 32, 4) uint8, 128 more."""
        if self.native is None:
            assert self._frozen is not None
            return self._frozen
        found: T = self._prepared.follow(self.native)
        return found


@checked
def pack(b: T, *, follow: bool = True) -> Packed:
    """Pack the right factor of products.

    Args:
        b: (inner, columns) float32, bfloat16 or int8, of any strides: for a linear layer, `weight.t()`.
        follow: Whether to hold b and to pack again after torch wrote to it, so that products are always of what b is
            now, and those that torch multiplies faster are left to it. Otherwise the panels are all that is kept: the
            product is of what b was, whatever happens to it.

    Raises:
        ArgumentError: b is no such matrix.

    Example:
        >>> b = torch.ones(2, 3)
        >>> followed, frozen = pack(b), pack(b, follow=False)
        >>> _ = b.mul_(5)
        >>> followed.panels[0, 0, 0, 0].item(), frozen.panels[0, 0, 0, 0].item()
        (5.0, 1.0)
    """
    kinds = (torch.float32, torch.bfloat16, torch.int8)
    if not isinstance(b, torch.Tensor) or b.dim() != 2 or b.dtype not in kinds:
        refuse("gemm.pack", "b", told(b), "a matrix of float32, bfloat16 or int8")
    if follow and b.is_inference():
        refuse(
            "gemm.pack",
            "b",
            "made in inference mode, where writes leave no trace",
            "another, or follow=False",
        )
    return Packed(b, follow=follow)
