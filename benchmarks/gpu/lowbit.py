"""Ways to multiply by codes of 4 bits on a GPU, for one row to many, against torch's bfloat16 layer.

    python -m benchmarks.gpu.lowbit --out FOLDER --seconds 40

The ways are those of `ops/lowbit/gpu.triton.py`, with some launches of the one on tensor cores.
Each row has how far every way is from a product in float64, of the largest. Times are by replays of graphs over inputs
larger than the cache.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelwright import ops
from kernelwright.ops._core.gpu import forms_of

from ._ops.timed import graph_of, took_us
from ._schedule_time import gpu
from .about import environment

SIZES = ((4096, 4096), (4096, 14336), (14336, 4096))
"""Outputs and inner elements."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512)
TILES = (
    {"tiles": 2},
    {"tiles": 4},
    {"tiles": 4, "warps": 8},
    {"tiles": 2, "most": 1},
    {"tiles": 2, "stages": 5},
)
_ROUNDS, _APART = 7, 150e6


def ways(rows: int) -> dict[str, Callable[..., Any]]:
    """Return the ways for so many rows, by name."""
    folder = Path(str(ops.lowbit.__file__)).parent
    module = forms_of(folder)[0]["lowbit_linear"].run.__globals__
    found: dict[str, Callable[..., Any]] = {}
    if rows <= 16:
        found["by_lanes"] = module["by_lanes"]
    if rows <= 256:
        for how in TILES:
            found[f"by_tiles {how}"] = partial(module["by_tiles"], **how)
    if rows >= 16:
        found["by_unpacking"] = module["by_unpacking"]
    return found


def row_of(outputs: int, inner: int, rows: int) -> dict[str, Any]:
    """Time the ways at one size."""
    made = []
    for _ in range(min(12, max(1, int(_APART / (outputs * inner / 2))))):
        w = torch.randn(outputs, inner, device="cuda", dtype=torch.bfloat16)
        made.append(
            (torch.randn(rows, inner, device="cuda", dtype=torch.bfloat16), w, ops.lowbit.pack(w, 4, 128))
        )

    def by(way: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: torch.Tensor, w: torch.Tensor, p: Any) -> Any:  # noqa: ARG001
            codes, zeros = p.codes, p.zeros
            given = (codes.view(torch.int32), p.scales, p.scales if zeros is None else zeros)
            sizes = (
                outputs,
                inner,
                codes.shape[1],
                p.scales.shape[1],
                p.group // 32,
                0 if zeros is not None else p.zero,
            )
            return way(x, given, sizes, None, outputs, {"ZEROS": zeros is not None, "BITS": 4})

        return call

    calls = {name: by(way) for name, way in ways(rows).items()}
    calls["bfloat16"] = lambda x, w, p: torch.nn.functional.linear(x, w)  # noqa: ARG005
    calls["op"] = lambda x, w, p: ops.lowbit.linear(x, p)  # noqa: ARG005
    x, w, p = made[0]
    exact = x.double() @ ops.lowbit.unpack(p).double().t()
    least = exact.abs().max().item()
    row: dict[str, Any] = {"outputs": outputs, "inner": inner, "rows": rows, "sets": len(made), "errors": {}}
    for name, call in calls.items():
        if name != "bfloat16":
            row["errors"][name] = (call(*made[0]).double() - exact).abs().max().item() / least
    many = max(len(made), 20)
    runs = {name: graph_of(call, made, many) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    with gpu():
        for number in range(_ROUNDS + 1):
            for name, run in runs.items():
                each = took_us(run) / many
                if number:
                    times[name].append(each)
    row["times_us"] = {name: round(statistics.median(t), 3) for name, t in times.items()}
    return row


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu"))
    parser.add_argument("--seconds", type=float, default=40.0)
    asked = parser.parse_args()
    until = time.monotonic() + asked.seconds
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    with (asked.out / "lowbit.jsonl").open("w") as out:
        out.write(json.dumps(environment("benchmarks.gpu.lowbit")) + "\n")
        for outputs, inner in SIZES:
            for rows in ROWS:
                if time.monotonic() > until:
                    continue
                try:
                    row = row_of(outputs, inner, rows)
                except Exception as error:  # noqa: BLE001  whatever it is, it is told of
                    row = {
                        "outputs": outputs,
                        "inner": inner,
                        "rows": rows,
                        "status": f"{type(error).__name__}: {error}",
                    }
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(row, flush=True)
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
