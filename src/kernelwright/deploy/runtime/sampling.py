"""One call in so many is compared with the native op."""

from collections.abc import Callable
from typing import Any

import torch

_SLACK = 4.0
"""Times what the package's own test allows: this is to see a kernel that went wrong, not to accept one again."""
_TIES = 0.01
"""Share of whole numbers that may differ, as where two elements are equally large."""


def compared(
    kernel: Callable[..., Any], native: Callable[..., Any], arguments: tuple[Any, ...], rule: dict[str, float]
) -> tuple[Any, str]:
    """Call both and return the kernel's result with what is wrong with it; empty where nothing is.

    Where something is, the result is the native op's, and arguments that the op changes are as that leaves them.

    Args:
        kernel: What serves the call.
        native: The native op.
        arguments: What both are given; the native op gets copies.
        rule: Factor and floor of the tolerance that the kernel was accepted with.
    """
    copies, doubles = tuple(map(_copy, arguments)), tuple(map(_double, arguments))
    result = kernel(*arguments)
    own = native(*copies)
    try:
        truth = _flat(native(*doubles))
    except (RuntimeError, TypeError, NotImplementedError):
        truth = _flat(own)
    pairs = zip(_flat(result), _flat(own), truth, strict=True)
    wrong = [w for w in (_wrong(*pair, rule) for pair in pairs) if w]
    changed = [
        i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor) and not _alike(a, copies[i], rule)
    ]
    if not wrong and not changed:
        return result, ""
    for i in changed:
        arguments[i].copy_(copies[i])
    return own, wrong[0] if wrong else f"argument {changed[0]} is left otherwise than by the native op"


def _wrong(got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor, rule: dict[str, float]) -> str:
    if got.shape != own.shape or got.dtype != own.dtype:
        return f"{got.dtype}{list(got.shape)} where the native op gives {own.dtype}{list(own.shape)}"
    if not own.numel():
        return ""
    if not own.is_floating_point():
        share = (got != own).double().mean().item()
        return f"{share:.1%} of the elements differ" if share > _TIES else ""
    finite = own.isfinite() & truth.isfinite()
    if not bool(got[finite].isfinite().all()):
        return "not finite where the native op is"
    want, off = truth[finite].double(), (got[finite].double() - truth[finite].double()).abs()
    if not want.numel():
        return ""
    native_off = (own[finite].double() - want).abs().max().item()
    floor = rule["floor"] * torch.finfo(own.dtype).eps * want.abs().max().item()
    allowed = _SLACK * max(rule["factor"] * native_off, floor)
    worst = off.max().item()
    return f"off by {worst:.3g} where {allowed:.3g} is allowed" if worst > allowed else ""


def _alike(left: torch.Tensor, right: torch.Tensor, rule: dict[str, float]) -> bool:
    return bool(torch.equal(left, right)) or not _wrong(left, right, right, rule)


def _flat(results: Any) -> list[torch.Tensor]:
    return [r for r in torch.utils._pytree.tree_flatten(results)[0] if isinstance(r, torch.Tensor)]


def _copy(argument: Any) -> Any:
    return argument.clone() if isinstance(argument, torch.Tensor) else argument


def _double(argument: Any) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    return argument.double() if argument.is_floating_point() else argument.clone()
