"""Products with packed right factors against torch's and numpy's, on a grid of sizes and with what follows a product.

    python -m benchmarks.ops.gemm [--only bfloat16] [--rounds 7] [--out FILE]

The grid is CUDA-L2's (rows, columns and inner elements by powers of two), scaled to what one core multiplies in some
hundredths of a second; rows of a few are added. The right factor is packed ahead of the calls, as weights are; torch's
and numpy's are as they lie. numpy's is the product of its own library (OpenBLAS in its wheels). `kernel` is the public
function, which leaves some products to torch. Summaries: geometric mean, and the ratio that a tenth of rows are below.
"""

import argparse
import itertools
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn import functional as F

from benchmarks.ops._turns import _RECYCLED, Case, turns
from kernelwright.ops import gemm

SIZES = (64, 128, 256, 512, 1024, 2048)
FEW = (1, 2, 4, 8, 16)
MOST = 1 << 30
"""Multiplications of a product."""


def grid() -> Iterator[tuple[int, int, int]]:
    """Rows, columns, inner elements."""
    for rows, columns, inner in itertools.product(SIZES, repeat=3):
        if rows * columns * inner <= MOST:
            yield rows, columns, inner
    yield from itertools.product(FEW, (256, 1024, 4096), (256, 1024, 4096))


def plain(rows: int, columns: int, inner: int, dtype: torch.dtype) -> Case:
    """One product."""
    size, name = f"{rows}x{columns}x{inner}", str(dtype).removeprefix("torch.")
    if dtype is torch.int8:
        a, b = (torch.randint(-128, 128, shape, dtype=dtype) for shape in ((rows, inner), (inner, columns)))
        packed = gemm.pack(b)
        calls = {"kernel": lambda: gemm.int_mm(a, packed), "torch": lambda: torch._int_mm(a, b)}
        return Case("int_mm", size, name, calls, 0.0)
    a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    packed = gemm.pack(b)
    calls = {"kernel": lambda: gemm.matmul(a, packed), "torch": lambda: torch.mm(a, b)}
    if dtype is torch.float32:
        x, y = a.numpy(), b.numpy()
        calls["numpy"] = lambda: torch.from_numpy(x @ y)
    return Case("matmul", size, name, calls, 2e-2 if dtype is torch.bfloat16 else 1e-4)


def followed(rows: int, columns: int, inner: int, dtype: torch.dtype) -> Iterator[Case]:
    """Products with bias and gelu, and with a gate and a residual."""
    size, name = f"{rows}x{columns}x{inner}", str(dtype).removeprefix("torch.")
    a, b = torch.randn(rows, inner).to(dtype), (torch.randn(inner, columns) * inner**-0.5).to(dtype)
    bias, gate, residual = (torch.randn(s).to(dtype) for s in ((columns,), (rows, columns), (rows, columns)))
    packed, weight = gemm.pack(b), b.t().contiguous()
    tolerance = 3e-2 if dtype is torch.bfloat16 else 1e-4
    yield Case(
        "bias_gelu", size, name, {
            "kernel": lambda: gemm.matmul(a, packed, bias, activation="gelu"),
            "torch": lambda: F.gelu(torch.addmm(bias, a, b)),
            "linear": lambda: F.gelu(F.linear(a, weight, bias)),
        }, tolerance,
    )  # fmt: skip
    yield Case(
        "silu_gate_residual", size, name, {
            "kernel": lambda: gemm.matmul(a, packed, activation="silu", gate=gate, residual=residual),
            "torch": lambda: torch.addcmul(residual, F.silu(torch.mm(a, b)), gate),
        }, tolerance,
    )  # fmt: skip


def cases(only: str) -> Iterator[Case]:
    """All of them whose dtype or op contains a word, made one by one."""
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        for size in grid():
            if only in f"matmul int_mm plain {dtype}":
                yield plain(*size, dtype)
        for size in ((1, 4096, 1024), (16, 2048, 1024), (64, 1024, 1024), (256, 2048, 512), (1024, 512, 256)):
            if only in f"followed {dtype}" and dtype is not torch.int8:
                yield from followed(*size, dtype)


def summary(rows: list[dict[str, object]]) -> str:
    """Geometric mean and the worst tenth, against each of the others."""
    lines = []
    for op, dtype in dict.fromkeys((row["op"], row["dtype"]) for row in rows):
        found = [row for row in rows if (row["op"], row["dtype"]) == (op, dtype)]
        for other in [name for name in found[0]["times_us"] if name != "kernel"]:  # type: ignore[attr-defined]
            ratios = sorted(row["times_us"][other] / row["times_us"]["kernel"] for row in found)  # type: ignore[index]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"{op} {dtype}, {len(ratios)} sizes, {other}: geomean {mean:.2f}, "
                f"tenth {ratios[len(ratios) // 10]:.2f}, least {ratios[0]:.2f}"
            )
    return "\n".join(lines)


def main() -> None:
    """Run, print a line for each size, and the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    wanted = {**_RECYCLED, "OMP_NUM_THREADS": str(given.threads), "OPENBLAS_NUM_THREADS": str(given.threads)}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(
            sys.executable,
            [sys.executable, "-m", "benchmarks.ops.gemm", *sys.argv[1:]],
            {**os.environ, **wanted},
        )
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    rows = []
    for case in cases(given.only):
        rows.append({"family": "gemm", **turns(case, given.rounds, given.threads)})
        print(
            f"{case.op:20} {case.size:>16} {case.dtype:9} {rows[-1]['ratio']:6.2f}",
            rows[-1]["times_us"],
            flush=True,
        )
        if given.out:
            with given.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print(summary(rows))


if __name__ == "__main__":
    main()
