"""Block pointers of Triton up to 3.8, for kernels that are compiled by a Triton that has removed them.

A block pointer is a base, and for each dimension a size, a stride, an offset and the block's length. A load or store
through it is one of the addresses that these give, masked in the dimensions whose bounds are to be checked.

Covers: `make_block_ptr`, `advance`, and `load` and `store` with `boundary_check` and `padding_option`.
Does not cover: `order`, which is a hint.

Source: Triton 3.5, triton/language/core.py (make_block_ptr) and lib/Dialect/Triton/Transforms/RewriteTensorPointer.cpp.
"""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock


@contextlib.contextmanager
def block_pointers() -> Iterator[None]:
    """Have kernels that are compiled in the block use block pointers, whatever Triton's version."""
    import triton.language as tl
    from triton.language.semantic import TritonSemantic

    if hasattr(TritonSemantic, "make_block_ptr"):
        yield
        return
    with mock.patch.multiple(tl, create=True, **_builtins(tl)):
        yield


@functools.cache
def _builtins(tl: Any) -> Mapping[str, Any]:
    """Return what takes the place of functions of `triton.language`, which tests may have imported again."""
    core: Any = tl.core
    plain_load, plain_store = tl.load, tl.store
    fields = {"base": tl.tensor, **dict.fromkeys(("shape", "strides", "offsets", "block_shape"), tl.tuple)}
    pointer = core._aggregate(type("BlockPointer", (), {"__annotations__": fields}))
    pointer.dtype = property(lambda block: block.base.dtype)
    typed, plain_type = _typed(core), pointer.type.fget
    pointer.type = property(lambda block: typed(pointer, plain_type(block).fields))

    def wide(values: Any, semantic: Any) -> Any:
        return tl.tuple([semantic.cast(semantic.to_tensor(v), tl.int64) for v in _listed(values)])

    def make_block_ptr(
        base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any, _semantic: Any = None
    ) -> Any:
        del order
        sizes = tl.tuple([tl.constexpr(core._unwrap_if_constexpr(n)) for n in _listed(block_shape)])
        return pointer(base, *(wide(v, _semantic) for v in (shape, strides, offsets)), sizes)

    def advance(base: Any, offsets: Any, _semantic: Any = None) -> Any:
        moved = [
            _semantic.add(a, b, True) for a, b in zip(base.offsets, wide(offsets, _semantic), strict=True)
        ]
        return pointer(base.base, base.shape, base.strides, tl.tuple(moved), base.block_shape)

    def load(
        pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), padding_option: Any = "",
        cache_modifier: Any = "", eviction_policy: Any = "", volatile: Any = False, _semantic: Any = None,
    ) -> Any:  # fmt: skip
        if _is_block(pointer):
            padding = core._unwrap_if_constexpr(padding_option)
            pointer, mask = _addresses(tl, pointer, boundary_check, _semantic)
            other = None if mask is None else {"zero": 0.0, "nan": float("nan")}.get(padding)
        return plain_load(
            pointer, mask, other, cache_modifier=cache_modifier, eviction_policy=eviction_policy,
            volatile=volatile, _semantic=_semantic,
        )  # fmt: skip

    def store(
        pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), cache_modifier: Any = "",
        eviction_policy: Any = "", _semantic: Any = None,
    ) -> Any:  # fmt: skip
        if _is_block(pointer):
            pointer, mask = _addresses(tl, pointer, boundary_check, _semantic)
        return plain_store(
            pointer, value, mask, cache_modifier=cache_modifier, eviction_policy=eviction_policy,
            _semantic=_semantic,
        )  # fmt: skip

    return {f.__name__: core.builtin(f) for f in (make_block_ptr, advance, load, store)}


def _addresses(tl: Any, block: Any, checked: Any, semantic: Any) -> tuple[Any, Any]:
    """Return the addresses of a block, and the mask of those within bounds; None where none are to be checked."""
    sizes = [int(n.value) for n in block.block_shape]
    checks = {int(tl.core._unwrap_if_constexpr(d)) for d in _listed(checked)}
    at, mask = semantic.splat(block.base, sizes), None
    for n, size in enumerate(sizes):
        index = semantic.cast(semantic.arange(0, size), tl.int64)
        index = semantic.add(index, semantic.splat(block.offsets[n], [size]), True)
        for axis in range(len(sizes)):
            index = index if axis == n else semantic.expand_dims(index, axis)
        index = semantic.broadcast_impl_shape(index, sizes)
        at = semantic.add(at, semantic.mul(index, block.strides[n], True), True)
        if n in checks:
            inside = semantic.and_(
                semantic.greater_equal(index, 0), semantic.less_than(index, block.shape[n])
            )
            mask = inside if mask is None else semantic.and_(mask, inside)
    return at, mask


def _typed(core: Any) -> Any:
    """Return a block pointer's type, which kernels ask for the type of its elements."""

    class BlockType(core._aggregate_type):  # type: ignore[misc]  # Triton has no types
        @property
        def element_ty(self) -> Any:
            return self.fields[0][1].element_ty

    return BlockType


def _is_block(pointer: Any) -> bool:
    return hasattr(pointer, "block_shape") and hasattr(pointer, "offsets")


def _listed(values: Any) -> list[Any]:
    value = getattr(values, "value", values)  # what a constant is
    return [value] if isinstance(value, int) else list(value)
