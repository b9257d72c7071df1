"""How fast the PTX executor is against Triton's interpreter, on the same kernels and inputs, in one run.

    python -m benchmarks.executor                # the table
    python -m benchmarks.executor --fuzz 2000    # random instructions against Python's exact arithmetic

Both sides alternate, each in a process of its own; the least of each side's times is compared, so other work
on the machine disturbs both alike. The executor's first call, which compiles, is told apart.

Covers: wall time and processor time of a launch on this host. Does not cover: any time of a GPU.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
import warnings
from typing import Any

import torch

SIDES = ("interpreter", "executor, unchecked", "executor, sanitised and counted")


def cases() -> dict[str, dict[str, Any]]:
    """Return the kernels: name → function, grid, arguments, constants, output, what float64 says."""
    from tests.executor import triton_kernels as kernels

    torch.manual_seed(0)
    m = n = k = 256
    a, b, c = torch.randn(m, k).half(), torch.randn(k, n).half(), torch.empty(m, n)
    x, y = torch.randn(64, 4000), torch.empty(64, 4000)
    v, total = torch.randn(1 << 18), torch.zeros(1)
    strides = (m, n, k, k, 1, n, 1, n, 1)
    return {
        "matmul 256x256x256 f16": {
            "function": kernels.matmul, "grid": (4, 4), "arguments": (a, b, c, *strides), "out": c,
            "constants": {"BM": 64, "BN": 64, "BK": 32}, "expected": a.double() @ b.double(),
            "settings": {"num_stages": 3},
        },
        "softmax 64x4000 f32": {
            "function": kernels.softmax, "grid": (64,), "arguments": (x, y, 4000, 4000), "out": y,
            "constants": {"BLOCK": 4096}, "expected": torch.softmax(x.double(), 1), "settings": {},
        },
        "sum of 262144 f32": {
            "function": kernels.split_k, "grid": (256,), "arguments": (v, total, 1 << 18), "out": total,
            "constants": {"BLOCK": 1024}, "expected": v.double().sum(), "settings": {},
        },
    }  # fmt: skip


def serve(side: str) -> None:
    """Time one call for each name read from standard input."""
    from kernelwright.executor import Options
    from kernelwright.executor.triton import run_triton

    options = Options(threads=1) if "sanitised" in side else Options(check=False, count=False, threads=1)
    known = cases()
    for line in sys.stdin:
        case = known[line.strip()]
        case["out"].zero_()
        started, cpu = time.perf_counter(), time.process_time()
        if side == "interpreter":
            case["function"][case["grid"]](*case["arguments"], **case["constants"])
        else:
            run = run_triton(
                case["function"],
                case["grid"],
                case["arguments"],
                case["constants"],
                options=options,
                **case["settings"],
            )
            assert run.ok, run.findings
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        error = (case["out"].double() - case["expected"]).abs().max().item() / case[
            "expected"
        ].abs().max().item()
        print(json.dumps([seconds, cpu, error]), flush=True)


def ask(process: "subprocess.Popen[str]", name: str) -> list[float]:
    """Have a side run a case once: wall seconds, processor seconds, error against float64."""
    assert process.stdin and process.stdout
    process.stdin.write(name + "\n")
    process.stdin.flush()
    return list(json.loads(process.stdout.readline()))


def table(repeats: int) -> None:
    """Print the times of all sides, and the ratios to the interpreter."""
    sides = {}
    for side in SIDES:
        env = {**os.environ, **({"TRITON_INTERPRET": "1"} if side == "interpreter" else {})}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.executor", "--side", side]
        sides[side] = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    for name in cases():
        first = {side: ask(p, name) for side, p in sides.items()}
        rounds = [{side: ask(p, name) for side, p in sides.items()} for _ in range(repeats)]
        best = {side: [min(r[side][i] for r in rounds) for i in (0, 1)] for side in SIDES}
        print(f"{name}")
        for side in SIDES:
            wall, cpu = best[side]
            ratio, cpu_ratio = best["interpreter"][0] / wall, best["interpreter"][1] / cpu
            print(
                f"  {side:34} {wall * 1e3:9.1f} ms ({cpu * 1e3:8.1f} ms of a processor), "
                f"{ratio:6.1f}x ({cpu_ratio:6.1f}x); first call {first[side][0]:.1f} s; error {rounds[0][side][2]:.1e}"
            )
    for process in sides.values():
        assert process.stdin
        process.stdin.close()
        process.wait()


def fuzz(count: int, seed: int) -> int:
    """Execute random instructions on 32 lanes each and print those that differ from their meaning."""
    from tests.executor.packed import case
    from tests.executor.test_instructions import mismatches

    rng = random.Random(seed)
    known = {}
    while len(known) < count:
        made = case(rng)
        known[made.text] = made
    programs = list(known.values())
    wrong = [w for n in range(0, count, 100) for w in mismatches(programs[n : n + 100], rng)]
    for text, operands, expected, got in wrong:
        print(f"{text} of {operands}: {got}, not {expected}")
    print(f"{count} instructions on 32 lanes each (seed {seed}): {len(wrong)} wrong")
    return bool(wrong)


def main() -> int:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fuzz", type=int, metavar="N", help="random instructions in place of times")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    if words.side:
        serve(words.side)
        return 0
    if words.fuzz:
        return fuzz(words.fuzz, words.seed)
    table(words.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
