"""Objects of this process → an operator of torch that finds them by number, for graphs hold numbers and no objects."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

_LIBRARY: Any = torch.library.Library("kernelwright", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
"""Kept, because torch forgets the operators of a library that is gone."""


def define_numbered(
    signature: str,
    run: Callable[..., list[torch.Tensor]],
    results_of: Callable[[int], Iterable[tuple[Sequence[int], torch.dtype]]],
) -> Any:
    """Define an operator on CPUs that returns a list of tensors, and return it.

    Args:
        signature: Its name and arguments, as torch writes them: a list of tensors first, the number last.
        run: Computes it.
        results_of: Returns shape and dtype of each result of the object with a number.
    """

    def fake(tensors: list[torch.Tensor], *rest: Any) -> list[torch.Tensor]:
        return [tensors[0].new_empty(shape, dtype=dtype) for shape, dtype in results_of(rest[-1])]

    name = signature.partition("(")[0]
    _LIBRARY.define(f"{signature} -> Tensor[]")
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"kernelwright::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.kernelwright, name).default
