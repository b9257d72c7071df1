"""One model in a process of its own: planned, optimized and, if it was improved, patched and called.

    python -m benchmarks.gpu._models.one llama --minutes 1.1 [--regions] --store FOLDER --out FILE

Writes rows as they are known: `plan`, what was judged, `result`, `patched`.
"""

import argparse
import json
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright import patch
from kernelwright.devices import detect
from kernelwright.models import ModelResult, load_model, optimize_model, plan
from kernelwright.models._device import moved
from kernelwright.models._optimize import BASELINES
from kernelwright.search import Event
from kernelwright.store import Store

MADE = Path(__file__).with_name("made.py")
_TOLD = ("plan", "whole", "region")
Row = dict[str, Any]


def planned(target: str, device: str, minutes: float) -> Row:
    """Plan, and say what a user is told."""
    found = plan(target, device=device, minutes=minutes)
    return {
        "seconds": round(found.seconds, 1), "time_us": found.time_us, "operators_us": found.operators_us,
        "expected": found.expected, "expected_of_whole": found.expected_of_whole,
        "regions": [
            {"label": r.label, "uses": r.uses, "time_us": r.time_us, "bound_us": r.bound_us, "limit": r.limit}
            for r in found.regions[:12]
        ],
        "whole_bound_us": found.whole.bound_us if found.whole else None,
        "breaks": found.breaks, "native": found.native, "notes": found.notes,
    }  # fmt: skip


def optimized(target: str, asked: argparse.Namespace, said: list[str]) -> tuple[Row, ModelResult]:
    """Optimize, and say what came of it and of every candidate."""

    def heard(event: Event) -> None:
        if event.event in _TOLD:
            said.append(f"{event.elapsed_s:.1f} {event.data.get('message', '')}"[:300])

    result = optimize_model(
        target, device=asked.device, minutes=asked.minutes, store=asked.store, on_event=heard,
        baselines=asked.baselines,
        proposers=("library", "inductor") if asked.regions else ("library", "schedule"),
    )  # fmt: skip
    row = {
        "decision": str(result.decision), "improved": result.improved, "baseline": result.baseline,
        "speedup": result.speedup.model_dump() if result.speedup else None,
        "eager_speedup": result.eager_speedup, "reason": result.reason, "seconds": round(result.seconds, 1),
        "regions": [
            {"label": r.label, "speedup": r.speedup, "kept": r.kept, "reason": r.reason[:400]} for r in result.regions
        ],
        "tried": tried(asked.store), "said": said,
    }  # fmt: skip
    return row, result


def tried(store: Path) -> list[Row]:
    """Return every candidate that was judged: its language, what was decided, and the times of the last block."""
    found: list[Row] = []
    with Store(store) as kept:
        for run in kept.runs():
            for one in kept.evaluations(run.id):
                decision = one.decision
                blocks = one.timing.blocks if one.timing else ()
                findings = one.verdict.findings if one.verdict else ()
                found.append({
                    "task": run.task_name, "language": one.candidate.language, "proposer": one.candidate.proposer,
                    "parameters": dict(one.candidate.parameters), "template": one.candidate.template,
                    "status": str(decision.status), "reason": decision.reason[:400], "baseline": decision.baseline,
                    "speedup": decision.speedup.median if decision.speedup else None,
                    "findings": [f"{f.check} {f.status}: {f.message}"[:400] for f in findings if f.status != "pass"],
                    "block_us": dict(blocks[-1].times_us) if blocks else {},
                    "device_us": dict(blocks[-1].device_us) if blocks else {},
                })  # fmt: skip
    return found


def patched(target: str, device: str, result: ModelResult, store: Path) -> Row:
    """Call the patched model on the GPU as well as the native one, and time both by the wall."""
    there = moved(load_model(target), detect(device).torch_device)
    inputs = there.whole.tensors

    def taken(call: Callable[..., Any]) -> float:
        times = []
        for _ in range(30):
            begun = time.perf_counter()
            call(*inputs)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begun)
        return sorted(times)[len(times) // 2] * 1e6

    with torch.no_grad():
        want = there.module(*inputs)
        native_us = taken(there.module)
        with patch(there.module, result, store=store) as patching:
            got = there.module(*inputs)
            got = there.module(*inputs)
            patched_us = taken(there.module)
        again = there.module(*inputs)
    return {
        "calls": patching.calls, "native_calls": patching.native_calls, "reason": patching.reason,
        "difference": float((got.double() - want.double()).abs().max()), "largest": float(want.double().abs().max()),
        "native_again": bool(torch.equal(again, want)), "patched_us": patched_us, "native_us": native_us,
    }  # fmt: skip


def main() -> int:
    """Run the steps, and write a row of each, or of how it failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--minutes", type=float, default=1.1)
    parser.add_argument(
        "--regions", action="store_true", help="regions alone, no program for the whole model"
    )
    parser.add_argument("--baselines", type=lambda text: tuple(text.split(",")), default=BASELINES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    target = f"{MADE}:{asked.name}"

    def step(what: str, run: Callable[[], Row]) -> None:
        head: Row = {"model": asked.name, "by": "regions" if asked.regions else "whole", "step": what}
        try:
            row = head | {"status": "ran"} | run()
        except Exception as error:  # noqa: BLE001  whatever it is, it is told of
            row = head | {"status": f"{type(error).__name__}: {error}"[:500]}
            row["trace"] = traceback.format_exc().splitlines()[-24:]
        with asked.out.open("a") as out:
            out.write(json.dumps(row, default=str) + "\n")

    found: list[ModelResult] = []
    said: list[str] = []

    def optimize() -> Row:
        row, result = optimized(target, asked, said)
        found.append(result)
        return row

    if not asked.regions:
        step("plan", lambda: planned(target, asked.device, asked.minutes))
    step("result", optimize)
    if not found:
        step("tried", lambda: {"tried": tried(asked.store), "said": said})
    elif found[0].improved:
        step("patched", lambda: patched(target, asked.device, found[0], asked.store))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
