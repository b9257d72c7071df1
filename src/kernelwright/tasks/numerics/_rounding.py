"""Run a reference in float64 with the rounding of its intermediate values: one draw of what honest kernels differ by.

Every operator's result is moved by half an epsilon times a standard normal number, and operators that are several
steps in one (norms, softmax, activations, gradients) are taken apart first, as a kernel that fuses them would write
them. So it shows how far a fair evaluation may be from the truth where the native op itself is near it by luck.
Unrounded (`Decomposed`), the steps show which NaN and infinities a fair evaluation may give.
Source: Parker, Monte Carlo Arithmetic (1997); the steps are torch's own decompositions.

Sums and products are moved by what they may be off in any order of their terms (`_products`). Whole numbers that are
made of constants alone, such as the buckets of positions, are made of unrounded values (`_constants`).

Covers: values that cancel behind a rounding, such as `x - mean(x)` or `1 - y * y`; sums and products in any order.
Does not cover: rounding within other scans and norms, which are one step here; native code of the user.
"""

import functools
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ._constants import Constants, is_discrete
from ._grouped import grouped_mm
from ._oracle import Widen
from ._recurrent import LSTM, lstm_layer
from ._running_sums import drift
from ._summation_error import spread

_STEPS = (1 << 16) + 1
"""Random steps drawn; larger tensors meet them again."""
_TAKEN_APART = frozenset({
    "_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "native_layer_norm", "native_group_norm",
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_fused_rms_norm",
    "var_mean", "std", "std_mean", "gelu", "silu", "mish", "elu", "softplus", "hardswish", "log_sigmoid_forward",
    "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "_scaled_dot_product_flash_attention_for_cpu", "soft_margin_loss", "nll_loss_forward", "nll_loss2d_forward",
    "addcmul", "addcdiv", "lerp", "logaddexp", "linalg_vector_norm",
})  # fmt: skip
"""Operators that are several roundings in one; so are all gradients."""
_EXACT = frozenset({
    "clone", "copy_", "_to_copy", "detach", "cat", "stack", "index", "index_select", "gather", "embedding", "where",
    "relu", "relu_", "neg", "abs", "sign", "max", "min", "amax", "amin", "maximum", "minimum", "clamp", "clamp_min",
    "clamp_max", "hardtanh", "threshold", "masked_fill", "constant_pad_nd", "sort", "topk", "flip", "roll", "repeat",
    "tril", "triu", "floor", "ceil", "round", "trunc", "fill_", "zero_", "zeros", "zeros_like", "ones", "ones_like",
    "full", "full_like", "empty", "empty_like", "new_zeros", "new_empty", "new_full", "arange", "scalar_tensor", "eye",
    "max_pool2d_with_indices", "scatter", "slice_scatter", "select_scatter", "slice_backward", "select_backward",
    "threshold_backward", "lift_fresh", "fmax", "fmin", "aminmax", "cummax", "cummin", "median", "nanmedian",
    "kthvalue", "mode", "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool3d_with_indices", "histc",
})  # fmt: skip
"""Operators that round nothing. Moved, an extreme would be equal to none of what it was chosen from, and have no
gradient."""
_COUNTING = ("sum", "cumsum")
"""Operators that round nothing where they add up whole numbers: one that was moved might be cut to the one below."""
_MOST_COUNTED = 1 << 24
_REDUCING = ("scatter_reduce", "index_reduce", "segment_reduce")
"""Operators that round nothing where they look for extremes."""


class Decomposed(Widen):
    """A mode in float64 in which operators that are several steps in one are taken apart."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator step by step; what its steps call comes here whole too, like `matmul`."""
        result = in_steps(self, func, args, kwargs or {})
        return self.step(func, types, args, kwargs or {}) if result is NotImplemented else result

    def step(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is one step."""
        return super().__torch_dispatch__(func, types, args, kwargs)


def in_steps(mode: TorchDispatchMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator that is several steps in one as these, under a mode; `NotImplemented` where it is one step."""
    if func is torch.ops.aten._grouped_mm.default:
        with mode:
            return grouped_mm(*args, **kwargs)
    if func is torch.ops.aten.mkldnn_rnn_layer.default and args[9] == LSTM:
        with mode:
            return lstm_layer(*args)
    if _has_steps(func):
        from torch._decomp import decomposition_table

        try:
            steps = decomposition_table.get(func, func.decompose)
            with mode:
                if func is torch.ops.aten.native_group_norm.default:
                    return _group_norm(steps, *args)
                if func is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default:
                    return _attention(steps, *args, **kwargs)
                if func is torch.ops.aten.convolution_backward.default:
                    return _convolution_backward(*args)
                return steps(*args, **kwargs)
        except (NotImplementedError, RuntimeError, TypeError, AssertionError):
            pass  # torch has no steps for these arguments
    return NotImplemented


@functools.cache
def _has_steps(func: Any) -> bool:
    """Tell whether an operator is several steps in one."""
    name = func.overloadpacket.__name__
    several = name in _TAKEN_APART or name.endswith(("_backward", "_backward_data"))
    return several or bool(func._can_decompose())


@functools.cache
def _rounds_never(func: Any) -> bool:
    """Tell whether an operator rounds nothing, whatever it is given."""
    drawn = torch.Tag.nondeterministic_seeded in func.tags
    return func.overloadpacket.__name__ in _EXACT or bool(func.is_view) or drawn


class Rounding(Decomposed):
    """A mode in which every step's float64 result carries the rounding of a narrower dtype."""

    def __init__(self, eps: float, seed: int) -> None:
        super().__init__()
        self._half, self._steps, self._random = eps / 2, _steps(eps), Random(seed)
        self._constants = Constants()
        self.ran: set[str] = set()
        """The operators that ran on float tensors."""

    def step(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator and round what comes out; what is discrete and constant is made of unrounded values."""
        given = args, kwargs
        unrounded = self._constants.exact(func, given)
        exact, constant = None, unrounded is not None
        if constant and (unrounded is not given or not self._is_exact(func, args, kwargs)):
            exact = super().step(func, types, *_copied(func, unrounded, given))
        if exact is not None and is_discrete(func, exact) and not func._schema.is_mutable:
            self._constants.note(func, given, exact, exact)
            return exact
        result = super().step(func, types, args, kwargs)
        name = func.overloadpacket.__name__
        if args and isinstance(args[0], Tensor) and args[0].dtype is torch.float64:
            self.ran.add(name)
        if not self._is_exact(func, args, kwargs):
            for tensor in tree_leaves(result):
                if isinstance(tensor, Tensor) and tensor.dtype is torch.float64:
                    sums, drifted = spread(name, args, tensor), drift(name, args, tensor)
                    self._round(tensor)
                    if sums is not None:
                        self._move(tensor, sums, drifted)
        self._constants.note(func, given, result, (result if exact is None else exact) if constant else None)
        return result

    def _is_exact(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Tell whether an operator rounds nothing of what it is given."""
        if _rounds_never(func):
            return True
        name = func.overloadpacket.__name__
        extremes = name.startswith(_REDUCING) and not {"amax", "amin", "max", "min"}.isdisjoint(
            a for a in (*args, *kwargs.values()) if isinstance(a, str)
        )
        return extremes or (name in _COUNTING and _is_whole(args[0]))

    def _round(self, tensor: Tensor) -> None:
        """Move every element; each result meets the steps from another place."""
        first = self._random.randrange(_STEPS)
        if tensor.is_contiguous():
            for part in torch.split(tensor.view(-1), _STEPS):
                part.mul_(self._steps[first : first + part.numel()])
        else:
            drawn = self._steps[first : first + _STEPS].repeat(-(-tensor.numel() // _STEPS))
            tensor.mul_(drawn[: tensor.numel()].view(tensor.shape))

    def _move(self, tensor: Tensor, sums: Tensor, drifted: Tensor | None) -> None:
        """Move every element by so many half epsilons, up or down: however few the draws, none looks exact.

        What drifts farther goes that far, all of it one way: sums that are alike are off alike.
        """
        first = self._random.randrange(_STEPS)
        signs = self._steps[first : first + _STEPS].sub(1).sign_().repeat(-(-tensor.numel() // _STEPS))
        sums = sums.nan_to_num(0.0, 0.0, 0.0)  # an infinity stays one: moved by another it would be NaN
        steps = signs[: tensor.numel()].view(tensor.shape).mul_(sums)
        if drifted is not None:
            steps = torch.where(drifted.abs() > sums, drifted * self._random.choice((-1, 1)), steps)
        tensor.add_(steps, alpha=self._half)


def _is_whole(value: object) -> bool:
    """Tell whether a tensor is of whole numbers, so small that float32 adds them up in any order without rounding."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    return torch.equal(value, value.trunc()) and bool(value.abs().sum() <= _MOST_COUNTED)


def _copied(func: Any, unrounded: Any, given: Any) -> Any:
    """Return unrounded arguments, copied where the operator would write into what it is given itself."""
    if not func._schema.is_mutable:
        return unrounded
    own = {id(v) for v in tree_leaves(given)}
    return tree_map(lambda v: v.clone() if isinstance(v, Tensor) and id(v) in own else v, unrounded)


def _group_norm(steps: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, *sizes: Any) -> Any:
    """Normalise, then scale and shift; torch's steps for a CPU fold the mean into the shift, where inf - inf is NaN."""
    y, mean, scale = steps(x, None, None, *sizes)
    shape = (-1, *[1] * (x.dim() - 2))
    y = y if weight is None else y * weight.view(shape)
    return y if bias is None else y + bias.view(shape), mean, scale


def _attention(
    steps: Any, query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, is_causal: bool = False,
    *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the answer and the logarithms of the sums; torch's steps give weights for these."""
    output, _ = steps(query, key, value, dropout, is_causal, attn_mask=attn_mask, scale=scale)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores + torch.full_like(scores, -torch.inf).triu(1)
    if attn_mask is not None:
        scores = scores + attn_mask
    # The rows of all heads lie side by side, as the native op leaves them.
    return output, scores.logsumexp(-1).mT.contiguous().mT


def _convolution_backward(
    g: Tensor, x: Tensor, weight: Tensor, _: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    _padded: Any, groups: int, wanted: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Differentiate a convolution by convolutions, so that each is a sum of known terms."""
    rank, kernel = x.dim() - 2, weight.shape[2:]
    stride, padding, dilation = (list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding, dilation))
    none = [0] * rank
    over_input = over_weight = over_bias = None
    if wanted[0]:
        reached = [
            (o - 1) * s - 2 * p + d * (k - 1) + 1
            for o, s, p, d, k in zip(g.shape[2:], stride, padding, dilation, kernel, strict=True)
        ]
        left = none if transposed else [n - r for n, r in zip(x.shape[2:], reached, strict=True)]
        over_input = torch.ops.aten.convolution(
            g, weight, None, stride, padding, dilation, not transposed, left, groups
        )
    if wanted[1]:
        wide, narrow = (g, x) if transposed else (x, g)
        images = (
            wide.reshape(wide.shape[0], groups, -1, *wide.shape[2:])
            .permute(2, 1, 0, *range(3, rank + 3))
            .flatten(1, 2)
        )
        taps = narrow.transpose(0, 1)
        found = torch.ops.aten.convolution(
            images, taps, None, dilation, padding, stride, False, none, groups
        ).transpose(0, 1)
        over_weight = found[(..., *(slice(k) for k in kernel))].contiguous()
    if wanted[2]:
        over_bias = g.sum([0, *range(2, rank + 2)])
    return over_input, over_weight, over_bias


@functools.cache
def _steps(eps: float) -> Tensor:
    """Draw factors that move a value by half an epsilon times a normal number; twice over, to begin anywhere."""
    drawn = torch.randn(_STEPS, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return drawn.mul_(eps / 2).add_(1).repeat(2)
