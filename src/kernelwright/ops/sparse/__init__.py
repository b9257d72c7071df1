"""Products with sparse matrices: with a dense one, at given places, and with each other.

| function | what it computes |
|---|---|
| `spmm(a, x)` | a sparse matrix times a dense one, with gradients of both |
| `sddmm(pattern, a, b)` | entries of a times b transposed at the places of a sparse matrix, with gradients of both |
| `spgemm(a, b)` | a sparse matrix times another, as a sparse one |
| `transpose(a)` | a sparse matrix, transposed |

Sparse matrices are torch's in CSR form, columns in any order, int32 or int64 indices; those that come out have
ascending columns where torch wants them.
"""

from pathlib import Path
from typing import Annotated, Any

import torch

from .._core import Kernel, Op, checked, cpu_only, floats, matrix, refuse, remembered, told
from . import reference

__all__ = ["KERNEL", "multiplied", "sddmm", "spgemm", "spmm", "transpose"]

KERNEL = Kernel(Path(__file__).with_name("kernel.cpp"))
"""The library of this family."""
_MOST_COLUMNS = 1 << 24
"""Columns of a product of two sparse matrices: each thread holds a dense row."""
_INDICES = (torch.int32, torch.int64)
_Tensor = torch.Tensor
_Csr = Annotated[torch.Tensor, torch.sparse_csr]


def _check_csr(name: str, crow: _Tensor, col: _Tensor, values: _Tensor | None = None, of: str = "") -> None:
    for which, x in ((f"{of}crow", crow), (f"{of}col", col)):
        if not isinstance(x, torch.Tensor) or x.dim() != 1 or x.dtype not in _INDICES:
            refuse(name, which, told(x), "a vector of int32 or int64")
    if not len(crow):
        refuse(name, f"{of}crow", "empty", "one number more than rows")
    if col.dtype is not crow.dtype:
        refuse(name, f"{of}col", f"of {col.dtype}", f"{crow.dtype}, as crow is")
    if values is not None:
        floats(name, f"{of}values", values)
        if values.shape != col.shape:
            refuse(name, f"{of}values", f"of shape {tuple(values.shape)}", f"{tuple(col.shape)}, as col is")


def _check_spmm(crow: _Tensor, col: _Tensor, values: _Tensor, x: _Tensor) -> None:
    _check_csr("sparse.spmm", crow, col, values)
    matrix("sparse.spmm", "x", x)
    if x.dtype is not values.dtype:
        refuse("sparse.spmm", "x", f"of {x.dtype}", f"{values.dtype}, as the values are")


def _check_sddmm(crow: _Tensor, col: _Tensor, a: _Tensor, b: _Tensor) -> None:
    _check_csr("sparse.sddmm", crow, col)
    matrix("sparse.sddmm", "a", a)
    matrix("sparse.sddmm", "b", b)
    if len(a) != len(crow) - 1:
        refuse("sparse.sddmm", "a", f"of {len(a)} rows", f"{len(crow) - 1}, as the pattern has")
    if b.shape[1] != a.shape[1] or b.dtype is not a.dtype:
        given = f"of shape {tuple(b.shape)}, {b.dtype}"
        refuse("sparse.sddmm", "b", given, f"(columns of the pattern, {a.shape[1]}), {a.dtype}, as a has")


def _check_transpose(crow: _Tensor, col: _Tensor, values: _Tensor, columns: int) -> None:
    _check_csr("sparse.transpose", crow, col, values)
    if columns < 0:
        refuse("sparse.transpose", "columns", columns, "0 or more")


def _check_products(acrow: _Tensor, acol: _Tensor, bcrow: _Tensor, bcol: _Tensor, columns: int) -> None:
    name = "sparse.spgemm"
    _check_csr(name, acrow, acol, of="a's ")
    _check_csr(name, bcrow, bcol, of="b's ")
    if bcrow.dtype is not acrow.dtype:
        refuse(name, "b's crow", f"of {bcrow.dtype}", f"{acrow.dtype}, as a's is")
    if columns < 0:
        refuse(name, "columns", columns, "0 or more")


def _check_spgemm(
    acrow: _Tensor, acol: _Tensor, avalues: _Tensor, bcrow: _Tensor, bcol: _Tensor, bvalues: _Tensor,
    columns: int, most: int, ascending: bool,  # noqa: ARG001
) -> None:  # fmt: skip
    name = "sparse.spgemm"
    _check_products(acrow, acol, bcrow, bcol, columns)
    _check_csr(name, acrow, acol, avalues, of="a's ")
    _check_csr(name, bcrow, bcol, bvalues, of="b's ")
    if bvalues.dtype is not avalues.dtype:
        refuse(name, "b's values", f"of {bvalues.dtype}", f"{avalues.dtype}, as a's are")
    if most < 0:
        refuse(name, "most", most, "0 or more")


def _serves(*arguments: Any) -> str | None:
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.dtype is not torch.float32:
            return f"a tensor is of {tensor.dtype}, and the kernel takes float32"
        if not tensor.is_contiguous():
            return "a tensor is not contiguous"
    return cpu_only(*tensors)


def _serves_product(*arguments: Any) -> str | None:
    columns = next(a for a in arguments if isinstance(a, int))
    if columns > _MOST_COLUMNS:
        return f"the product has {columns} columns, more than {_MOST_COLUMNS}"
    return _serves(*arguments)


def _keep_spmm(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _turned(*given: Any) -> Any:
    """Transpose, or where gradients of gradients are asked for by the reference, which has them."""
    return (reference.transpose if torch.is_grad_enabled() else _transpose)(*given)


def _spmm_gradient(ctx: Any, grad: _Tensor) -> tuple[Any, ...]:
    crow, col, values, x = ctx.saved_tensors
    grad = grad.contiguous()
    of_values = _sddmm(crow, col, grad, x) if ctx.needs_input_grad[2] else None
    of_x = _spmm(*_turned(crow, col, values, len(x)), grad) if ctx.needs_input_grad[3] else None
    return None, None, of_values, of_x


def _sddmm_gradient(ctx: Any, grad: _Tensor) -> tuple[Any, ...]:
    crow, col, a, b = ctx.saved_tensors
    grad = grad.contiguous()
    of_a = _spmm(crow, col, grad, b) if ctx.needs_input_grad[2] else None
    of_b = _spmm(*_turned(crow, col, grad, len(b)), a) if ctx.needs_input_grad[3] else None
    return None, None, of_a, of_b


_spmm = Op(
    "sparse_spmm(Tensor crow, Tensor col, Tensor values, Tensor x) -> Tensor",
    reference=reference.spmm, kernel=KERNEL, check=_check_spmm, serves=_serves,
    outputs=lambda crow, col, values, x: x.new_empty(crow.shape[0] - 1, x.shape[1]),  # noqa: ARG005
    gradient=(_keep_spmm, _spmm_gradient),
)  # fmt: skip
_sddmm = Op(
    "sparse_sddmm(Tensor crow, Tensor col, Tensor a, Tensor b) -> Tensor",
    reference=reference.sddmm, kernel=KERNEL, check=_check_sddmm, serves=_serves,
    outputs=lambda crow, col, a, b: a.new_empty(col.shape[0]),  # noqa: ARG005
    gradient=(_keep_spmm, _sddmm_gradient),
)  # fmt: skip
_transpose = Op(
    "sparse_transpose(Tensor crow, Tensor col, Tensor values, int columns) -> (Tensor, Tensor, Tensor)",
    reference=reference.transpose, kernel=KERNEL, check=_check_transpose, serves=_serves,
    outputs=lambda crow, col, values, columns: (
        crow.new_empty(columns + 1), col.new_empty(col.shape), values.new_empty(values.shape)
    ),
)  # fmt: skip
_products = Op(
    "sparse_products(Tensor acrow, Tensor acol, Tensor bcrow, Tensor bcol, int columns) -> Tensor",
    reference=reference.products, kernel=KERNEL, check=_check_products, serves=_serves_product,
    outputs=lambda acrow, *_: acrow.new_empty(1, dtype=torch.int64),
)  # fmt: skip
_spgemm = Op(
    "sparse_spgemm(Tensor acrow, Tensor acol, Tensor avalues, Tensor bcrow, Tensor bcol, Tensor bvalues, int columns,"
    " int most, bool ascending) -> (Tensor, Tensor, Tensor)",
    reference=reference.spgemm, kernel=KERNEL, check=_check_spgemm, serves=_serves_product,
    outputs=lambda acrow, acol, avalues, *rest: (
        acrow.new_empty(acrow.shape), acol.new_empty(rest[-2]), avalues.new_empty(rest[-2])
    ),
)  # fmt: skip


@remembered
@checked
def spmm(a: _Csr, x: _Tensor) -> _Tensor:
    """Return a sparse matrix times a dense one.

    Args:
        a: (rows, inner) in torch's CSR form, float32; other floats run the reference.
        x: (inner, columns), of the same dtype, or a vector.

    Returns:
        (rows, columns), or a vector where x is one. Gradients flow to `a.values()` and to x.

    Raises:
        ArgumentError: shapes, layouts or dtypes do not fit.
        ValueError: the indices of a are no CSR form.

    Example:
        >>> spmm(torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_csr(), torch.tensor([[1.0], [5.0]]))
        tensor([[10.],
                [ 0.]])
    """
    parts = _parts("sparse.spmm", "a", a)
    vector = isinstance(x, torch.Tensor) and x.dim() == 1
    if isinstance(x, torch.Tensor) and x.dim() in (1, 2) and x.shape[0] != a.shape[1]:
        refuse("sparse.spmm", "x", f"of shape {tuple(x.shape)}", f"({a.shape[1]}, ...), as a has columns")
    found: _Tensor = _spmm(*parts, x[:, None] if vector else x)
    return found[:, 0] if vector else found


@remembered
@checked
def multiplied(crow: _Tensor, col: _Tensor, values: _Tensor, x: _Tensor) -> _Tensor:
    """Return a sparse matrix, given as its three parts, times a dense one, as `spmm` does.

    Args:
        crow: (rows + 1,) int32 or int64, where the entries of each row begin.
        col: (entries,), the column of each.
        values: (entries,) float32; other floats run the reference.
        x: (columns, width), of the same dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        ValueError: the indices are no CSR form.

    Example:
        >>> multiplied(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2.0]), torch.tensor([[1.0], [5.0]]))
        tensor([[10.]])
    """
    found: _Tensor = _spmm(crow, col, values, x)
    return found


def entries(crow: _Tensor, col: _Tensor, a: _Tensor, b: _Tensor) -> _Tensor:
    """Return entries of `a @ b.T` at the places of a pattern that is given as its two parts, as `sddmm` does.

    Args:
        crow: (rows + 1,) int32 or int64, where the entries of each row begin.
        col: (entries,), the column of each.
        a: (rows, inner) float32; other floats run the reference.
        b: (columns, inner), of the same dtype.

    Raises:
        ArgumentError: shapes or dtypes do not fit.
        ValueError: the indices are no CSR form.

    Example:
        >>> entries(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([[2.0]]), torch.tensor([[1.0], [5.0]]))
        tensor([10.])
    """
    found: _Tensor = _sddmm(crow, col, a, b)
    return found


@checked
def sddmm(pattern: _Csr, a: _Tensor, b: _Tensor) -> _Tensor:
    """Return the entries of a times b transposed where a sparse matrix has entries.

    Args:
        pattern: (rows, columns) in torch's CSR form; its values do not matter.
        a: (rows, inner) float32; other floats run the reference.
        b: (columns, inner), of the same dtype.

    Returns:
        A sparse matrix with the pattern's indices. Gradients flow to a and b.

    Raises:
        ArgumentError: shapes, layouts or dtypes do not fit.
        ValueError: the indices of the pattern are no CSR form.

    Example:
        >>> a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])
        >>> sddmm(torch.tensor([[0.0, 1.0]]).to_sparse_csr(), a, b).values()
        tensor([17.])
    """
    crow, col, _ = _parts("sparse.sddmm", "pattern", pattern)
    matrix("sparse.sddmm", "b", b)
    if len(b) != pattern.shape[1]:
        refuse("sparse.sddmm", "b", f"of {len(b)} rows", f"{pattern.shape[1]}, as the pattern has columns")
    values = _sddmm(crow, col, a, b)
    return torch.sparse_csr_tensor(crow, col, values, pattern.shape, check_invariants=False)


@checked
def spgemm(a: _Csr, b: _Csr, *, ascending: bool = True) -> _Tensor:
    """Return a sparse matrix times another, as a sparse one.

    Args:
        a: (rows, inner) in torch's CSR form, float32; other floats run the reference.
        b: (inner, columns), of the same dtype and with the same indices' dtype; at most 2^24 columns run the kernel.
        ascending: Whether the columns of a row ascend, as torch's form wants them; `a @ b` leaves them as they come.

    Returns:
        (rows, columns) in CSR form, with an entry wherever two entries were multiplied, zero or not.

    Raises:
        ArgumentError: shapes, layouts or dtypes do not fit.
        ValueError: indices are no CSR form.

    Example:
        >>> a = torch.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse_csr()
        >>> spgemm(a, a).to_dense()
        tensor([[2., 0.],
                [0., 2.]])
    """
    left, right = _parts("sparse.spgemm", "a", a), _parts("sparse.spgemm", "b", b)
    if a.shape[1] != b.shape[0]:
        refuse("sparse.spgemm", "b", f"of shape {tuple(b.shape)}", f"({a.shape[1]}, ...), as a has columns")
    columns = b.shape[1]
    most = int(_products(*left[:2], *right[:2], columns))
    crow, col, values = _spgemm(*left, *right, columns, most, ascending)
    entries = int(crow[-1])
    col, values = col[:entries], values[:entries]
    if entries < most // 2:
        col, values = col.clone(), values.clone()  # so that what is not needed is given back
    return torch.sparse_csr_tensor(crow, col, values, (a.shape[0], columns), check_invariants=False)


@checked
def transpose(a: _Csr) -> _Tensor:
    """Return a sparse matrix, transposed, in CSR form too.

    Args:
        a: (rows, columns) in torch's CSR form, float32; other floats run the reference.

    Raises:
        ArgumentError: it is no such matrix.
        ValueError: its indices are no CSR form.

    Example:
        >>> transpose(torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]]).to_sparse_csr()).to_dense()
        tensor([[0., 1., 0.],
                [2., 0., 3.]])
    """
    crow, col, values = _transpose(*_parts("sparse.transpose", "a", a), a.shape[1])
    return torch.sparse_csr_tensor(crow, col, values, (a.shape[1], a.shape[0]), check_invariants=False)


def _parts(name: str, argument: str, a: _Tensor) -> tuple[_Tensor, _Tensor, _Tensor]:
    if not isinstance(a, torch.Tensor):
        refuse(name, argument, f"a {type(a).__name__}", "a sparse matrix in CSR form")
    if a.layout is not torch.sparse_csr or a.dim() != 2 or a.values().dim() != 1:
        refuse(
            name, argument, f"of layout {a.layout}, shape {tuple(a.shape)}", "a matrix in torch's CSR form"
        )
    return a.crow_indices(), a.col_indices(), a.values()
