"""Products with sparse matrices against torch's own (MKL) and scipy's.

    python -m benchmarks.ops.sparse [--only "spmm 1 column"] [--threads 1] [--rounds 9] [--out rows.jsonl]

Matrices have their entries anywhere (`random`), near the diagonal (`band`), or as a graph of power-law degrees
(`graph`); sizes are rows x columns x entries a row, and x columns of what is dense. Neither torch nor scipy sorts the
columns of a product of two sparse matrices; `spgemm` does, `spgemm unsorted` does not either.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import scipy.sparse
import torch

from benchmarks.ops._turns import Case, main
from kernelwright.ops import sparse

SHAPES = (
    ("random", 10_000, 10_000, 10), ("random", 100_000, 100_000, 5), ("random", 2_000, 2_000, 100),
    ("band", 50_000, 50_000, 9), ("graph", 20_000, 20_000, 20), ("graph", 100_000, 100_000, 8),
    ("random", 1_000, 50_000, 50), ("band", 5_000, 5_000, 64),
)  # fmt: skip
"""Kind, rows, columns, entries a row in the mean."""
WIDTHS = (1, 16, 64, 256)


def made(kind: str, rows: int, columns: int, each: int, seed: int = 0) -> torch.Tensor:
    """Make a sparse matrix of one kind, float32 with int64 indices, columns ascending and none twice."""
    random = np.random.default_rng(seed)
    if kind == "graph":
        degrees = np.minimum(random.zipf(1.8, rows), columns // 4)
        degrees = np.maximum(1, degrees * each // max(1, int(degrees.mean())))
        degrees = np.minimum(degrees, columns // 4)
    else:
        degrees = np.full(rows, each)
    row = np.repeat(np.arange(rows), degrees)
    if kind == "band":
        col = np.clip(row * columns // rows + random.integers(-each, each + 1, len(row)), 0, columns - 1)
    elif kind == "graph":
        col = (random.power(3.0, len(row)) * columns).astype(np.int64)
    else:
        col = random.integers(0, columns, len(row))
    found = scipy.sparse.coo_matrix((np.ones(len(row), np.float32), (row, col)), (rows, columns)).tocsr()
    found.sum_duplicates()
    values = torch.randn(found.nnz, generator=torch.Generator().manual_seed(seed))
    crow, col = (
        torch.from_numpy(found.indptr.astype(np.int64)),
        torch.from_numpy(found.indices.astype(np.int64)),
    )
    return torch.sparse_csr_tensor(crow, col, values, (rows, columns), check_invariants=True)


def in_scipy(a: torch.Tensor) -> scipy.sparse.csr_matrix:
    """Return the same matrix for scipy, with its own int32 indices."""
    crow, col = a.crow_indices().int().numpy(), a.col_indices().int().numpy()
    return scipy.sparse.csr_matrix((a.values().numpy(), col, crow), a.shape)


def cases(only: str) -> Iterator[Case]:
    """Make the cases: products with dense matrices of several widths, at places, and of two sparse ones."""
    for kind, rows, columns, each in SHAPES:
        a = made(kind, rows, columns, each)
        name = f"{kind} {rows}x{columns}x{each}"
        theirs = in_scipy(a)
        for width in WIDTHS:
            if only not in f"spmm {width} columns":
                continue
            x = torch.randn(columns, width)
            dense = x.numpy()
            yield Case("spmm", f"{name} x{width}", "float32", {
                "kernel": partial(sparse.spmm, a, x), "torch": partial(torch.sparse.mm, a, x),
                "scipy": lambda m=theirs, d=dense: torch.from_numpy(m @ d),
            })  # fmt: skip
        if only in "sddmm":
            left, right = torch.randn(rows, 64), torch.randn(columns, 64)
            row = torch.repeat_interleave(torch.arange(rows), a.crow_indices().diff())
            yield Case("sddmm", f"{name} x64", "float32", {
                "kernel": lambda a=a, p=left, q=right: sparse.sddmm(a, p, q).values(),
                "gathered": lambda a=a, p=left, q=right, r=row: (p[r] * q[a.col_indices()]).sum(-1),
                "torch": lambda a=a, p=left, q=right: torch.sparse.sampled_addmm(a, p, q.T, beta=0.0).values(),
            })  # fmt: skip
        if only in "spgemm" and (each * each * rows < 60_000_000):
            b = a if rows == columns else made(kind, columns, rows, max(1, each * rows // columns), 1)
            other = theirs if rows == columns else in_scipy(b)
            for op, ascending in (("spgemm", True), ("spgemm unsorted", False)):
                yield Case(op, name, "float32", {
                    "kernel": lambda a=a, b=b, up=ascending: _ends(sparse.spgemm(a, b, ascending=up)),
                    "torch": lambda a=a, b=b: _ends(a @ b), "scipy": lambda m=theirs, n=other: _sums(m @ n),
                })  # fmt: skip


def _ends(found: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return found.crow_indices(), found.values().sum()


def _sums(found: scipy.sparse.csr_matrix) -> tuple[torch.Tensor, ...]:
    return torch.from_numpy(found.indptr), torch.tensor(found.data.sum())


if __name__ == "__main__":
    main(cases, "benchmarks.ops.sparse")
