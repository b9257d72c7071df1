"""The GPU path, proven on the real thing: peaks, then Triton library kernels against eager and torch.compile.

    python -m benchmarks.gpu.library --out benchmarks/results/h200

Writes `<date>-peaks.json` and `<date>-tasks.jsonl` with the environment and the command; needs a CUDA
device (exit 4 without one) and less than eight minutes. A row is written as soon as it is known.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import kernelwright as kw
from kernelwright.devices import detect, peaks_of

from ..library import of_sizes, table
from ..library import targets as all_targets
from .about import environment

TASKS = (
    "softmax.py:softmax", "softmax.py:log_softmax", "softmax.py:masked_softmax", "norm.py:layer_norm",
    "norm.py:rms_norm_residual", "norm.py:l2_normalize", "loss.py:cross_entropy", "transformer.py:swiglu",
    "transformer.py:geglu", "transformer.py:glu_chunk", "transformer.py:rope_half",
    "transformer.py:rope_interleaved", "matmul.py:skinny_linear_gelu",
    "pointwise.py:gelu_bias", "pointwise.py:add_relu", "pointwise.py:layer_scale", "reduce.py:sum_rows",
    "reduce.py:logsumexp_rows", "norm.py:group_norm_silu", "loss.py:nll_of_log_softmax",
)  # fmt: skip
DEADLINE_S = 450.0


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/gpu"))
    parser.add_argument("--evaluations", type=int, default=6)
    options = parser.parse_args()
    about = environment("benchmarks.gpu.library")
    started = time.monotonic()
    device = detect("cuda:0")
    options.out.mkdir(parents=True, exist_ok=True)
    stem = about["date"][:10]
    peaks = peaks_of(device, refresh=True)
    kept = {**about, "peaks": peaks.model_dump(mode="json")["values"]}
    (options.out / f"{stem}-peaks.json").write_text(json.dumps(kept, indent=1))
    rows: list[dict[str, object]] = []
    path = options.out / f"{stem}-tasks.jsonl"
    known = {t.split("/")[-1]: t for t in all_targets([])}
    with path.open("w") as file, tempfile.TemporaryDirectory() as store:
        file.write(json.dumps(about) + "\n")
        for size in ("large", "small"):
            for name in TASKS:
                if time.monotonic() - started > DEADLINE_S:
                    break
                task = of_sizes(kw.load_task(known[name]), [size])
                result = kw.optimize(
                    task, device="cuda:0", languages=("triton",), proposers=("library",), store=store,
                    budget=kw.Budget(evaluations=options.evaluations, minutes=0.4),
                )  # fmt: skip
                row = {"target": name, "size": size, **json.loads(result.line())}
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
    table(rows)
    print(f"{len(rows)} rows in {time.monotonic() - started:.0f} s, written to {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
