"""One token of each sequence against its cache."""

from typing import Any

import torch

from .._core import Op, Parts, cap_of, checked, cpu_only, floats, refuse, remembered
from . import reference
from ._cache import BLOCK, columns_of
from ._ops import KERNEL, SERVED, numbers, of_heads, said

T = torch.Tensor
_NAME = "attention.decode"
_CACHED = "(pages, positions, kv heads, columns)"


def _of_ints(argument: str, x: object, shape: tuple[int | str, ...]) -> None:
    if not isinstance(x, T):
        refuse(_NAME, argument, f"a {type(x).__name__}", "a tensor of torch.int32")
    fits = x.dim() == len(shape) and all(
        isinstance(n, str) or n == m for n, m in zip(shape, x.shape, strict=True)
    )
    if not fits or x.dtype is not torch.int32:
        words = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), torch.int32"
        refuse(_NAME, argument, f"of shape {tuple(x.shape)}, {x.dtype}", words)


def _check_cache(q: T, argument: str, cache: T, scales: T | None) -> None:
    if not isinstance(cache, T):
        refuse(_NAME, argument, f"a {type(cache).__name__}", "a tensor")
    if cache.dim() != 4:
        refuse(_NAME, argument, f"of shape {tuple(cache.shape)}", _CACHED)
    if scales is None:
        if cache.dtype is not q.dtype:
            refuse(_NAME, argument, f"of {cache.dtype}", f"{q.dtype}, as q is, or torch.int8 with scales")
        return
    name = f"{argument[0]}_scales"
    if not isinstance(scales, T):
        refuse(_NAME, name, f"a {type(scales).__name__}", "a tensor of torch.float32 or torch.bfloat16")
    grouped = scales.dim() == 4
    if cache.dtype is not torch.int8 and not (grouped and cache.dtype is torch.uint8):
        refuse(_NAME, argument, f"of {cache.dtype}", "torch.int8, or torch.uint8 with scales of groups")
    if grouped:
        _check_groups(name, columns_of(cache), cache.shape, scales)
    elif scales.shape != cache.shape[:3] or scales.dtype is not torch.float32:
        given = f"of shape {tuple(scales.shape)}, {scales.dtype}"
        refuse(_NAME, name, given, f"{tuple(cache.shape[:3])}, torch.float32")


def _check_groups(name: str, columns: int, shape: torch.Size, scales: T) -> None:
    each = columns // max(1, scales.shape[3])
    fits = each >= BLOCK and each & (each - 1) == 0 and each * scales.shape[3] == columns
    if scales.shape[:3] != shape[:3] or not fits or scales.dtype is not torch.bfloat16:
        wanted = f"({', '.join(map(str, shape[:3]))}, columns / group), torch.bfloat16, of groups of 32, 64, 128 ..."
        refuse(_NAME, name, f"of shape {tuple(scales.shape)}, {scales.dtype}", wanted)


def _check(
    q: T, k_cache: T, v_cache: T, lengths: T, pages: T | None = None, k_scales: T | None = None,
    v_scales: T | None = None, sinks: T | None = None, slopes: T | None = None, window: int = 0, scale: float = 1.0,
    soft_cap: float = 0.0,
) -> None:  # fmt: skip
    floats(_NAME, "q", q)
    if q.dim() != 3:
        refuse(_NAME, "q", f"of shape {tuple(q.shape)}", "(batch, heads, inner)")
    batch, heads, inner = q.shape
    _check_cache(q, "k_cache", k_cache, k_scales)
    _check_cache(q, "v_cache", v_cache, v_scales)
    count, size, groups = k_cache.shape[:3]
    if columns_of(k_cache) != inner:
        refuse(_NAME, "k_cache", f"of {columns_of(k_cache)} columns", f"{inner}, as q has")
    if v_cache.shape[:3] != k_cache.shape[:3]:
        given = f"of shape {tuple(v_cache.shape)}"
        refuse(_NAME, "v_cache", given, f"({count}, {size}, {groups}, columns), as k_cache has")
    if not groups or heads % groups:
        refuse(_NAME, "k_cache", f"of {groups} heads", f"a divisor of {heads}, the heads of q")
    if not size:
        refuse(_NAME, "k_cache", "of pages without positions", "at least one position")
    _of_ints("lengths", lengths, (batch,))
    if pages is not None:
        _of_ints("pages", pages, (batch, "pages"))
    elif count < batch:
        refuse(
            _NAME, "k_cache", f"of {count} pages", f"at least {batch}, one a sequence, or a table of pages"
        )
    of_heads(_NAME, "sinks", sinks, heads)
    of_heads(_NAME, "alibi", slopes, heads)
    if not isinstance(window, int) or isinstance(window, bool) or window < 0:
        refuse(_NAME, "window", said(window), "a whole number above 0, or None")
    numbers(_NAME, scale, soft_cap)


def _serves(q: T, k_cache: T, v_cache: T, lengths: T, *rest: Any) -> str | None:
    if q.dtype not in SERVED:
        return f"q is of {q.dtype}, and the kernel takes float32, bfloat16 and float16"
    for name, x in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        if x.stride(-1) != 1 and x.shape[-1] != 1:
            return f"{name} does not have its columns side by side"
    k_scales, v_scales = rest[1:3]
    if k_cache.dtype is not v_cache.dtype or (k_scales is not None and k_scales.dtype is not v_scales.dtype):
        return "keys and values are not cached in the same way"
    for x in (lengths, *rest[:5]):
        if x is not None and not (
            x.is_contiguous() and x.dtype in (torch.int32, torch.float32, torch.bfloat16)
        ):
            return "lengths, pages, scales, sinks or alibi are not contiguous, or are of float64"
    return cpu_only(q, k_cache, v_cache, lengths, *rest[:5])


def _outputs(q: T, k_cache: T, v_cache: T, *_: Any) -> tuple[T, T]:  # noqa: ARG001
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    return q.new_empty(*q.shape[:2], columns_of(v_cache)), q.new_empty(*q.shape[:2], dtype=wide)


def _by_reference(q: T, k_cache: T, v_cache: T, lengths: T, pages: T | None, *rest: Any) -> tuple[T, T]:
    """Run the reference on what is in range; the kernel looks for itself."""
    count, size = k_cache.shape[:2]
    most = size * (1 if pages is None else pages.shape[1])
    expected = f"0 to {most}, what the pages hold"
    for length in lengths.tolist():
        if not 0 <= length <= most:
            refuse(_NAME, "lengths", f"{length} somewhere", expected)
    if pages is not None:
        used = torch.arange(pages.shape[1]) * size < lengths.cpu()[:, None]
        for page in pages.cpu()[used].tolist():
            if not 0 <= page < count:
                refuse(_NAME, "pages", f"{page} somewhere", f"0 to {count - 1}")
        pages = torch.where(used.to(pages.device), pages, 0)
    return reference.decode(q, k_cache, v_cache, lengths, pages, *rest)


def _cached(*arguments: Any) -> int:
    """Return the kind of a cache: float32, floats of 16 bits, int8, or what has scales for groups of columns."""
    k_cache, k_scales = arguments[1], arguments[5]
    if k_scales is not None:
        return 3 if k_scales.dim() == 4 else 2
    return int(k_cache.dtype is not torch.float32)


_decode = Op(
    "attention_decode(Tensor q, Tensor k_cache, Tensor v_cache, Tensor lengths, Tensor? pages, Tensor? k_scales, "
    "Tensor? v_scales, Tensor? sinks, Tensor? alibi, int window, float scale, float soft_cap) -> (Tensor, Tensor)",
    reference=_by_reference, kernel=KERNEL, outputs=_outputs, check=_check, serves=_serves,
    parts=Parts("KW_CACHE", (0, 1, 2, 3), _cached),
)  # fmt: skip


@remembered
@checked
def decode(
    q: T, k_cache: T, v_cache: T, lengths: T, *, pages: T | None = None, k_scales: T | None = None,
    v_scales: T | None = None, window: int | None = None, scale: float | None = None, soft_cap: float | None = None,
    sinks: T | None = None, alibi: T | None = None,
) -> T:  # fmt: skip
    """Return attention of the last token of each sequence to what is cached of it, its own key and value included.

    Keys are read where they lie, once for all heads of a group, and shared out over tasks, whose results are added in
    an order that does not depend on threads. There are no gradients.

    Args:
        q: (batch, heads, inner) float32, bfloat16 or float16; float64 runs the reference.
        k_cache: (pages, positions, kv heads, inner) of q's dtype, or int8 with `k_scales`, or int4: uint8 of half as
            many columns.
        v_cache: (pages, positions, kv heads, columns), likewise.
        lengths: (batch,) int32: how many positions of each sequence count; 0 gives zeros.
        pages: (batch, most pages) int32: the pages of each sequence in order; sequence b is page b if none.
        k_scales: What codes are multiplied by, from `quantize`: (pages, positions, kv heads) float32, or of groups of
            columns (pages, positions, kv heads, groups) bfloat16.
        v_scales: The same of values.
        window: The last positions that count; None for all.
        scale: What scores are multiplied by; 1 / sqrt(inner) by default.
        soft_cap: Scores are kept within it; None for no cap.
        sinks: (heads,) float32: the score of one more key without a value.
        alibi: (heads,) float32: `alibi * distance` is subtracted from scores.

    Returns:
        (batch, heads, columns) of q's dtype.

    Raises:
        ArgumentError: an argument does not fit.
        ValueError: a length or a page is out of range.

    Example:
        >>> q, cache = torch.randn(2, 4, 8), torch.randn(2, 16, 2, 8)
        >>> decode(q, cache, cache, torch.tensor([1, 16], dtype=torch.int32)).shape
        torch.Size([2, 4, 8])
    """
    if not isinstance(q, T):
        refuse(_NAME, "q", f"a {type(q).__name__}", "a tensor")
    if scale is None:
        scale = max(1, q.shape[-1] if q.dim() else 1) ** -0.5
    if window is not None and (not isinstance(window, int) or window < 1):
        refuse(_NAME, "window", said(window), "a whole number above 0, or None")
    given = (
        lengths,
        pages,
        k_scales,
        v_scales,
        sinks,
        alibi,
        window or 0,
        scale,
        cap_of(_NAME, "soft_cap", soft_cap),
    )
    out: T = _decode(q, k_cache, v_cache, *given)[0]
    return out
