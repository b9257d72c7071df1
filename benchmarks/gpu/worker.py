"""What a judged worker costs on a GPU, part by part, by language, with the sandbox and without; and whether it works.

    python -m benchmarks.gpu.worker --out FILE.jsonl [--seconds 60]

A row for each language and kind of isolation: seconds to start a zygote and a worker, to make the CUDA context and
load, of the first call (Triton compiles in it), then microseconds of a call and of fetching its outputs; or the
traceback of what failed. Right means near softmax in float64. The clock is the judge's.
"""

import argparse
import json
import statistics
import tempfile
import time
import traceback
from pathlib import Path

import torch

from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.records import Candidate, SourceFile, TensorSpec
from kernelwright.sandbox import Payload, Pool

from .about import environment

SHAPE = (4096, 1024)
KERNELS = Path(__file__).parents[2] / "tests" / "gpu" / "adversarial" / "honest"
CANDIDATES = {
    "torch": ("graph_replayed.py", "run", "function"),
    "triton": ("triton_rows.py", "run", "function"),
    "cuda": ("cuda_rows.cu", "softmax", "destination"),
}
CALLS = 50
Row = dict[str, object]


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("worker.jsonl"))
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    with options.out.open("w") as file:
        file.write(json.dumps(environment("benchmarks.gpu.worker")) + "\n")
        file.flush()
        for kind in ("auto", "none"):
            for row in rows_of(kind, end):
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(json.dumps({k: v for k, v in row.items() if k != "traceback"}))
                print(row.get("traceback", ""), end="")
    return 0


def rows_of(kind: str, end: float) -> list[Row]:
    """Try every language in a pool of its own, so that what breaks one does not break the next."""
    rows = []
    for language in CANDIDATES:
        if time.monotonic() > end:
            break
        with tempfile.TemporaryDirectory() as folder:
            settings = Settings.from_environment(
                {"KERNELWRIGHT_CACHE": folder, "KERNELWRIGHT_STORE": folder, "KERNELWRIGHT_SANDBOX": kind}
            )
            row: Row = {"language": language, "sandbox": kind}
            try:
                measure(language, settings, row, end)
            except Exception:  # noqa: BLE001 - what failed is the row
                row["traceback"] = traceback.format_exc()
            rows.append(row)
    return rows


def measure(language: str, settings: Settings, row: Row, end: float) -> None:
    """Fill a row with what is known so far, so that a failure shows where it happened."""
    name, symbol, style = CANDIDATES[language]
    source = SourceFile(path=name, text=(KERNELS / name).read_text())
    candidate = Candidate.model_validate(
        {"sources": (source,), "language": language, "entry": f"{name}:{symbol}", "style": style}
    )
    spoken, limit_s = get_language(language), max(5.0, end - time.monotonic())
    begun = time.monotonic()
    build = type(spoken)(settings).build(candidate, deadline_s=limit_s)  # type: ignore[call-arg]
    row["build_s"] = round(time.monotonic() - begun, 3)
    row["build"] = build.status.value
    outputs = (TensorSpec(name="out", shape=SHAPE, dtype="float32"),)
    x, weight = torch.randn(SHAPE), torch.rand(SHAPE[1])
    right = x.double().softmax(-1) * weight
    with Pool(settings, device="cuda:0") as pool:
        begun = time.monotonic()
        row["layers"] = list(pool.layers)
        row["zygote_s"] = round(time.monotonic() - begun, 3)
        payload = Payload(candidate, build.artefact, outputs=outputs, device="cuda:0")
        begun = time.monotonic()
        with pool.worker(payload, deadline_s=limit_s) as worker:
            row["load_s"] = round(worker.loaded.setup_us / 1e6, 3)
            row["worker_s"] = round(time.monotonic() - begun, 3)
            numbers = worker.bind_all([[pool.arena.place(x), pool.arena.place(weight)]], outputs)
            row["first_call_s"] = round(worker.call(numbers, limit_s).time_us / 1e6, 3)
            error = (worker.fetch().outputs[0].double() - right).abs().max()
            row["largest_error"] = float(error)
            times, device, fetched = [], [], []
            for _ in range(CALLS):
                worker.release()
                numbers = worker.bind_all([[pool.arena.place(x), pool.arena.place(weight)]], outputs)
                pool.arena.reset()
                reply = worker.call(numbers, limit_s)
                times.append(reply.time_us)
                device.append(reply.device_us)
                fetched.append(worker.fetch().time_us)
            row |= {
                "call_us": round(statistics.median(times), 1),
                "device_us": round(statistics.median(device), 1),
                "fetch_us": round(statistics.median(fetched), 1),
                "audit": worker.audit().__dict__ | {"descriptors": len(worker.audit().descriptors)},
            }


if __name__ == "__main__":
    raise SystemExit(main())
