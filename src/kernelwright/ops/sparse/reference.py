"""References of products with sparse matrices: torch alone, sums in float32 or wider, rounded once.

A sparse matrix is in CSR form: the entries of row r are those from `crow[r]` up to `crow[r + 1]`. Entries before the
first row and after the last belong to none.
"""

import torch

Triple = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def spmm(crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the product of a sparse matrix and x."""
    row, inside = _rows(crow, col, len(x))
    wide = torch.promote_types(values.dtype, torch.float32)
    terms = values.to(wide)[:, None] * x.to(wide)[col.long()]
    terms = torch.where(inside[:, None], terms, 0.0)
    out = torch.zeros(len(crow) - 1, x.shape[1], dtype=wide, device=x.device)
    return out.index_add(0, row, terms).to(x.dtype) if len(out) else out.to(x.dtype)


def sddmm(crow: torch.Tensor, col: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the entries of a times b transposed at the places of a sparse matrix."""
    row, inside = _rows(crow, col, len(b))
    if not len(a):
        return a.new_zeros(len(col))
    wide = torch.promote_types(a.dtype, torch.float32)
    found = (a.to(wide)[row] * b.to(wide)[col.long()]).sum(-1)
    return torch.where(inside, found, 0.0).to(a.dtype)


def transpose(crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, columns: int) -> Triple:
    """Return the transposed matrix: entries of a column in the order of their rows."""
    row, inside = _rows(crow, col, columns)
    if not inside.all():
        raise ValueError("sparse: crow is no row of offsets; expected every entry in a row")
    order = torch.argsort(col, stable=True)
    counts = torch.bincount(col.long(), minlength=columns)
    first = torch.zeros(columns + 1, dtype=crow.dtype, device=crow.device)
    first[1:] = counts.cumsum(0)
    return first, row[order].to(col.dtype), values[order]


def products(
    acrow: torch.Tensor, acol: torch.Tensor, bcrow: torch.Tensor, bcol: torch.Tensor, columns: int
) -> torch.Tensor:
    """Count the entries that the product of two sparse matrices has at most; a tensor of one number.

    A row has one for each multiplication, and no more than there are columns.
    """
    keys, _ = _products(acrow, acol, bcrow, bcol, columns)
    return _most(keys, len(acrow) - 1, columns)[None]


def _most(keys: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    return torch.bincount(keys // max(1, columns), minlength=rows).clamp(max=columns).sum()


def spgemm(
    acrow: torch.Tensor,
    acol: torch.Tensor,
    avalues: torch.Tensor,
    bcrow: torch.Tensor,
    bcol: torch.Tensor,
    bvalues: torch.Tensor,
    columns: int,
    most: int,
    ascending: bool,  # noqa: ARG001  they always are
) -> Triple:
    """Return the product of two sparse matrices; columns and values have `most` elements, of which the first count."""
    keys, (left, right) = _products(acrow, acol, bcrow, bcol, columns)
    if not _most(keys, len(acrow) - 1, columns) <= most <= len(keys):
        raise ValueError("sparse: most is not as many entries as the product may have")
    wide = torch.promote_types(avalues.dtype, torch.float32)
    places, which = torch.unique(keys, return_inverse=True)
    values = torch.zeros(most, dtype=wide, device=avalues.device)
    values = values.index_add(0, which, avalues.to(wide)[left] * bvalues.to(wide)[right])
    counts = torch.bincount(places // max(1, columns), minlength=len(acrow) - 1)
    first, col = torch.zeros_like(acrow), torch.zeros(most, dtype=acol.dtype, device=acol.device)
    first[1:] = counts.cumsum(0)
    col[: len(places)] = (places % max(1, columns)).to(acol.dtype)
    return first, col, values.to(avalues.dtype)


def _rows(crow: torch.Tensor, col: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the row of each entry, and whether it is in one; raise for what is no CSR form."""
    entries = len(col)
    if len(crow) and not (crow[0] >= 0 and crow[-1] <= entries and (crow[1:] >= crow[:-1]).all()):
        raise ValueError(f"sparse: crow is no row of offsets; expected them to ascend from 0 to {entries}")
    if entries and not (col.min() >= 0 and col.max() < columns):
        raise ValueError(f"sparse: col is out of range somewhere; expected 0 to {columns - 1}")
    row = (
        torch.searchsorted(crow, torch.arange(entries, dtype=crow.dtype, device=crow.device), right=True) - 1
    )
    rows = len(crow) - 1
    return row.clamp(0, max(0, rows - 1)), (row >= 0) & (row < rows)


def _products(
    acrow: torch.Tensor, acol: torch.Tensor, bcrow: torch.Tensor, bcol: torch.Tensor, columns: int
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Return row times columns plus column of each multiplication, and the entries of both that it multiplies."""
    row, inside = _rows(acrow, acol, len(bcrow) - 1)
    _rows(bcrow, bcol, columns)
    left = torch.nonzero(inside)[:, 0]
    inner = acol.long()[left]
    counts = bcrow.diff().long()[inner]
    before = counts.cumsum(0) - counts
    left = left.repeat_interleave(counts)
    step = torch.arange(len(left), device=acol.device) - before.repeat_interleave(counts)
    right = bcrow.long()[inner].repeat_interleave(counts) + step
    return row[left] * columns + bcol.long()[right], (left, right)
