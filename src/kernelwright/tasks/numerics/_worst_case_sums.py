"""Run a reference as if every order of summation had met its infinities at the worst place.

A sum that meets an infinity is infinite in one order and NaN in another: partial sums may be inf and -inf, a
running mean subtracts infinities. An honest kernel may group differently from the native op, so where the two
readings of a result differ, neither is demanded (docs/acceptance.md, "NaN and infinity").

Covers: reductions, scans, products of matrices, convolutions, normalisations, averages over windows.
Does not cover: reductions that a reference writes as a loop of elementwise operators.
"""

from typing import Any

import torch
from torch.utils._pytree import tree_map

from ...system.dispatch_mode import DispatchMode

_SUMS = frozenset([
    "sum", "mean", "nansum", "prod", "var", "var_mean", "std", "std_mean", "norm", "linalg_vector_norm",
    "linalg__powsum", "cumsum", "cumprod", "mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addbmm",
    "addmv", "convolution", "mkldnn_rnn_layer", "scatter_add", "index_add", "native_batch_norm",
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_layer_norm",
    "native_group_norm", "_fused_rms_norm", "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d", "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_attention_math", "_cdist_forward",
])  # fmt: skip
"""Operators that add or multiply several elements into one. Extremes are not among them: no order of theirs
makes a NaN; nor is `logsumexp`, whose infinities are defined."""
_SCANS = frozenset(["cumsum", "cumprod"])
_KEPT_BY_NORMS = ("running_mean", "running_var")


class WorstCaseSums(DispatchMode):
    """Turn the infinities that a sum returns, or writes into what it keeps, into NaN.

    Example:
        >>> with WorstCaseSums():
        ...     torch.tensor([1.0, float("inf")]).sum(), torch.tensor([1.0, 2.0]).sum()
        (tensor(nan), tensor(3.))
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator and look at what came out."""
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name.rstrip("_") not in _SUMS:
            return result
        for given, declared in zip(args, func._schema.arguments, strict=False):
            if declared.name in _KEPT_BY_NORMS:
                _doubt(given)
        return _doubt_onward(result, args[1]) if name in _SCANS else tree_map(_doubt, result)


def _doubt_onward(prefixes: torch.Tensor, dim: int) -> torch.Tensor:
    """Doubt what comes after an infinite prefix too: one that is kept in a wider dtype comes back, another does not."""
    if not prefixes.is_floating_point() or not prefixes.dim():
        return prefixes
    return prefixes.masked_fill_(prefixes.isinf().cumsum(dim).bool(), float("nan"))


def _doubt(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        value.masked_fill_(torch.isinf(value), float("nan"))
    return value
