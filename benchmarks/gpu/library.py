"""The library's Triton kernels on a GPU, judged: peaks, then speedups over eager and torch.compile.

    python -m benchmarks.gpu.library --out FILE.jsonl [--seconds 120] [--evaluations 2] [--tasks softmax,rope_half]

First the environment, then the device's peaks, then a row for each task and size, of a whole `optimize`: verdict,
decision, time, speedup, bound. A row is written as soon as it is known; what fails is a row with its traceback. Needs
a CUDA device (exit 4 without one).
"""

import argparse
import json
import statistics
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

import kernelwright as kw
from kernelwright.devices import detect, peaks_of
from kernelwright.records import Block
from kernelwright.store import Store

from ..library import of_sizes
from ..library import targets as all_targets
from .about import environment

TASKS = (
    "softmax.py:softmax", "transformer.py:glu_chunk", "norm.py:rms_norm_residual", "matmul.py:skinny_linear_gelu",
    "loss.py:cross_entropy", "transformer.py:rope_half", "norm.py:layer_norm", "softmax.py:masked_softmax",
    "transformer.py:rope_interleaved", "softmax.py:log_softmax", "loss.py:nll_of_log_softmax",
)  # fmt: skip
"""Tasks of which the library has a kernel in Triton, most telling first: the time may not be enough for all."""
LEAST_S = 12.0
"""Seconds without which no further row is begun."""
MOST_S = 40.0
"""Seconds that a row may take at most."""


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("library.jsonl"))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--evaluations", type=int, default=2)
    parser.add_argument("--tasks", type=lambda words: set(words.split(",")), default=set())
    options = parser.parse_args()
    about, end = environment("benchmarks.gpu.library"), time.monotonic() + options.seconds
    known = {t.split("/")[-1]: t for t in all_targets([])}
    wanted = [
        (s, n)
        for s in ("large", "small")
        for n in TASKS
        if not options.tasks or n.split(":")[1] in options.tasks
    ]
    rows = []
    with options.out.open("w") as file, tempfile.TemporaryDirectory() as store:

        def write(row: Mapping[str, object]) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()

        write(about)
        peaks = peaks_of(detect("cuda:0"), refresh=True)
        write({"peaks": peaks.model_dump(mode="json")["values"]})
        for name, peak in sorted(peaks.values.items()):
            print(f"{name:18} {peak.value:.4g} {peak.unit}/s  {peak.source}")
        for size, name in wanted:
            if end - time.monotonic() < LEAST_S:
                break
            rows.append(
                judged(known[name], size, options.evaluations, min(MOST_S, end - time.monotonic()), store)
            )
            write(rows[-1])
            print(line(rows[-1]), flush=True)
    print(f"{len(rows)} of {len(wanted)} rows in the {options.seconds:.0f} s, in {options.out.name}")
    return 0


def judged(target: str, size: str, evaluations: int, seconds: float, store: str) -> dict[str, object]:
    """Return the row of one task and size."""
    row: dict[str, object] = {"target": target.split("/")[-1], "size": size}
    begun = time.monotonic()
    try:
        result = kw.optimize(
            of_sizes(kw.load_task(target), [size]), device="cuda:0", languages=("triton",), proposers=("library",),
            store=store, budget=kw.Budget(evaluations=evaluations, minutes=seconds / 60),
        )  # fmt: skip
        row |= json.loads(result.line())
        with Store(Path(store)) as kept:
            row["evaluated"] = [
                {
                    "decision": e.decision.model_dump(mode="json"),
                    "stages_s": e.stages_s,
                    "blocks": clocks(e.timing.blocks) if e.timing else {},
                    "failed": [f.model_dump(mode="json") for f in e.verdict.findings if f.status != "pass"]
                    if e.verdict
                    else [],
                    "build": e.build.status if e.build else None,
                }
                for e in kept.evaluations(result.run)
            ]
    except Exception:  # noqa: BLE001 - what failed is the row
        row["traceback"] = traceback.format_exc()
    return row | {"seconds": round(time.monotonic() - begun, 1)}


def clocks(blocks: Sequence[Block]) -> dict[str, dict[str, float]]:
    """Return medians of a block by phase and variant, in microseconds: by the judge's clock, less what a request
    without calls took (`request`), and by the GPU's."""
    found: dict[str, dict[str, float]] = {}
    for phase in {b.phase for b in blocks}:
        mine = [b for b in blocks if b.phase == phase]
        row = found[phase] = {
            "blocks": len(mine),
            "calls": statistics.median(b.calls for b in mine),
            "request": statistics.median(b.handshake_us for b in mine),
        }
        for name in mine[0].times_us:
            row[name] = statistics.median(b.times_us[name] * b.calls for b in mine)
            row[f"{name}, GPU"] = statistics.median(b.device_us.get(name, 0.0) * b.calls for b in mine)
    return found


def line(row: dict[str, object]) -> str:
    """Return a row for people."""
    if "traceback" in row:
        return f"{row['target']} {row['size']}: failed\n{row['traceback']}"
    said = [f"{row['target']:34} {row['size']:6} {row['seconds']:5} s  {row.get('decision')}"]
    said.append(f"{row.get('speedup')} {row.get('time_us')} {row.get('reason', '')}"[:150])
    for one in row["evaluated"]:  # type: ignore[attr-defined]
        said += [f"\n    {f['check']} {f['status']}: {f['message'][:200]}" for f in one["failed"]]
    return "  ".join(said)


if __name__ == "__main__":
    raise SystemExit(main())
