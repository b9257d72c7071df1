"""Products of groups of rows or columns, which torch has no float64 form of, by plain products.

Source: `torch.nn.functional.grouped_mm`: offsets are where each group ends; what follows the last is zero here.
"""

import torch
from torch import Tensor


def grouped_mm(
    a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None
) -> Tensor:  # fmt: skip
    """Multiply as `torch._grouped_mm` does: rows of `a`, columns of `b`, or parts of what is summed, in groups.

    Example:
        >>> a, b = torch.eye(3, dtype=torch.float64), torch.ones(2, 3, 1, dtype=torch.float64)
        >>> grouped_mm(a, b * torch.tensor([1.0, 5.0]).reshape(2, 1, 1), torch.tensor([1, 3])).flatten().tolist()
        [1.0, 5.0, 5.0]
    """
    if offs is None:
        made = torch.bmm(a, b)
    else:
        ends = offs.tolist()
        groups = list(enumerate(zip([0, *ends], ends, strict=False)))
        if a.dim() == b.dim() == 2:
            made = torch.stack([a[:, s:e] @ b[s:e] for _, (s, e) in groups])
        elif a.dim() == 2:
            rest = a.new_zeros(a.shape[0] - ends[-1], b.shape[-1])
            made = torch.cat([*(a[s:e] @ b[g] for g, (s, e) in groups), rest])
        else:
            rest = a.new_zeros(a.shape[1], b.shape[1] - ends[-1])
            made = torch.cat([*(a[g] @ b[:, s:e] for g, (s, e) in groups), rest], -1)
    made = made if bias is None else made + bias
    return made if out_dtype is None else made.to(out_dtype)
