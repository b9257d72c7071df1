"""Settings of convolutions and pooling, for one dimension as for two."""

from collections.abc import Mapping, Sequence

from ..tasks.capture import Argument
from ._program import Plain


def pair(value: Argument, count: int = 2) -> list[int]:
    """Return a setting of a window for each axis; one number stands for all.

    Example:
        >>> pair(3), pair((1, 2))
        ([3, 3], [1, 2])
    """
    values = value if isinstance(value, tuple) else (value,)
    return [int(str(v)) for v in values] * (count if len(values) == 1 else 1)


def window(shape: Sequence[int], kernel: Sequence[int], given: Mapping[str, Argument]) -> dict[str, Plain]:
    """Return sizes of image and window, with one row where there is one dimension."""
    flat = len(kernel) == 1

    def two(name: str, fill: int) -> list[Plain]:
        return [*([fill] if flat else []), *pair(given.get(name, fill), len(kernel))]

    return {
        "height": 1 if flat else shape[-2], "width": shape[-1], "kernel": [*([1] if flat else []), *kernel],
        "stride": two("stride", 1), "padding": two("padding", 0), "dilation": two("dilation", 1),
    }  # fmt: skip


def pooled(shape: Sequence[int], kernel: Sequence[int], given: Mapping[str, Argument]) -> tuple[int, ...]:
    """Return the shape that pooling gives."""
    settings = (
        pair(given.get(name, fill)) for name, fill in (("padding", 0), ("dilation", 1), ("stride", 1))
    )
    sizes = zip(shape[-2:], kernel, *settings, strict=True)
    return (*shape[:-2], *((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, p, d, s in sizes))
