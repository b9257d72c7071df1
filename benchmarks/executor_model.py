"""How well modelled times rank configurations whose times on a GPU were recorded.

    python -m benchmarks.executor_model SPACE.csv.gz [--sample 12] [--seed 0] [--out rows.jsonl]

The space is a tuner's record of a convolution of 15 x 15 on an A100 (columns `block_size_x` ... `time_ms`;
AutoTuningAssociation's benchmark_hub has it). Each sampled configuration is a kernel of our own that does what the
parameters say; one block of it is executed, counted, and stands for the grid.

Covers: Spearman's rank correlation, and how many recorded times lie within their intervals.
Does not cover: the recorded kernel's own code, which differs in detail; other kernels, other devices.
"""

import argparse
import csv
import dataclasses
import gzip
import json
import math
import random
import sys
from pathlib import Path

import numpy as np

from kernelwright.devices.specs import specs
from kernelwright.executor import Module, Uninitialised
from kernelwright.executor.cuda import compile_cuda
from kernelwright.executor.modelled import modelled, registers_of
from kernelwright.records import ModelledTime

WIDTH, FILTER = 4096, 15
PITCH = WIDTH + FILTER - 1
SOURCE = """
__constant__ float weights[F * F];
extern "C" __global__ void __launch_bounds__(BX * BY) convolve(const float* in, float* out) {
  const int tx = threadIdx.x, ty = threadIdx.y, x0 = blockIdx.x * BX * TX, y0 = blockIdx.y * BY * TY;
  float sum[TY][TX] = {};
#if SHARED
  constexpr int W = BX * TX + F - 1, H = BY * TY + F - 1, P = W + (PAD && BX % 32 ? BX : 0);
  __shared__ float tile[H][P];
  for (int y = ty; y < H; y += BY)
    for (int x = tx; x < W; x += BX) tile[y][x] = READ(&in[(y0 + y) * PITCH + x0 + x]);
  __syncthreads();
#define AT(y, x) tile[y][x]
#else
#define AT(y, x) READ(&in[(y0 + (y)) * PITCH + x0 + (x)])
#endif
#pragma unroll 1
  for (int fy = 0; fy < F; fy++)
#pragma unroll
    for (int fx = 0; fx < F; fx++)
#pragma unroll
      for (int y = 0; y < TY; y++)
#pragma unroll
        for (int x = 0; x < TX; x++) sum[y][x] += AT(ty + y * BY + fy, tx + x * BX + fx) * weights[fy * F + fx];
#pragma unroll
  for (int y = 0; y < TY; y++)
#pragma unroll
    for (int x = 0; x < TX; x++) out[(y0 + ty + y * BY) * WIDTH + x0 + tx + x * BX] = sum[y][x];
}
"""


def model_of(row: dict[str, str]) -> ModelledTime:
    """Execute one block of a configuration and model the whole grid on an A100."""
    bx, by, tx, ty = (int(row[f"{what}_size_{d}"]) for what in ("block", "tile") for d in "xy")
    names = {
        "F": FILTER, "PITCH": PITCH, "WIDTH": WIDTH, "BX": bx, "BY": by, "TX": tx, "TY": ty,
        "SHARED": row["use_shmem"], "PAD": row["use_padding"],
        "READ(at)": "__ldg(at)" if row["read_only"] == "1" else "*(at)",
    }  # fmt: skip
    ptx = compile_cuda("".join(f"#define {n} {v}\n" for n, v in names.items()) + SOURCE, target="sm_80")
    rows = by * ty
    image = np.zeros((rows + FILTER - 1, PITCH), np.float32)
    out = np.zeros((rows, WIDTH), np.float32)
    run = Module.load(ptx)["convolve"](1, (bx, by), [image, Uninitialised(out)])
    assert run.ok, [str(f) for f in run.findings]
    grid = math.ceil(WIDTH / (bx * tx)) * math.ceil(WIDTH / rows)
    everything = 4 * (PITCH * PITCH + WIDTH * WIDTH)  # blocks share their edges
    counters = dataclasses.replace(run.counters, touched_bytes=everything // grid)
    spec = specs()["a100-sxm-80"]
    return modelled(counters, spec, registers=registers_of(ptx, "sm_80", "convolve"), scale=grid)


def ranks(values: list[float]) -> np.ndarray:
    """Return the place of each value."""
    return np.argsort(np.argsort(values)).astype(float)


def main() -> int:
    """Read the words of the command line, print each configuration and the correlation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("space", type=Path)
    parser.add_argument("--sample", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON lines file to add rows to")
    words = parser.parse_args()
    with gzip.open(words.space, "rt") as file:
        known = [r for r in csv.DictReader(file) if r["time_ms"]]
    recorded, found = [], []
    for row in random.Random(words.seed).sample(known, words.sample):
        made = model_of(row)
        recorded.append(float(row["time_ms"]) * 1e3)
        found.append(made)
        print(f"{recorded[-1]:9.1f} us recorded; {made}", flush=True)
        if words.out:
            with words.out.open("a") as out:
                out.write(json.dumps({**row, **made.model_dump()}) + "\n")
    if len(found) > 1:
        rho = np.corrcoef(ranks(recorded), ranks([m.rank_us for m in found]))[0, 1]
        inside = sum(m.low_us <= t <= m.high_us for m, t in zip(found, recorded, strict=True))
        print(
            f"rank correlation {rho:.2f} over {len(found)} configurations; {inside} times within their intervals"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
