"""Drift of a language model of the zoo that was really optimised, as deployed: batches, lengths, greedy and sampled text.

    python -m benchmarks.zoo.deployed [--only llama] [--size 4,32] [--minutes 8] [--run RUN] [--store DIR] [--out rows.jsonl]

The model is optimised at each size, batch and tokens, unless `--run` names a run of the store in which it was. The patched
model then serves requests of several lengths, alone, token by token and in one batch, padded to these sizes as servers do;
the drift gate compares it with the native one, which is served likewise, and counts the calls that its kernels answered.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from benchmarks.zoo.__main__ import HERE, models
from kernelwright.models import (
    MODEL_DRIFT,
    ModelResult,
    keep_metadata,
    load_model,
    model_result,
    optimize_model,
    patch,
)
from kernelwright.models._records import SizedResult
from kernelwright.models._sizes import Sizes, optimize_sizes
from kernelwright.models.drift import Deployment, Padded, drift, top_p
from kernelwright.store import Store

STEPS, SHARE, TEMPERATURE = 8, 0.9, 0.8
"""Tokens that are decoded one by one, and the sampler: top-p at a temperature."""
Row = dict[str, Any]
Size = tuple[int, int]


def main(argv: Sequence[str] | None = None) -> int:
    """Optimise one model unless it was, judge its drift, and print a row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--only", default="llama", help="a language model of the zoo that takes `batch` and `seq`"
    )
    parser.add_argument("--size", action="append", default=[], help="batch and tokens, by comma; repeat it")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--run", help="nothing is searched: the run in which the model was judged")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    sizes = [(int(batch), int(seq)) for batch, seq in (text.split(",") for text in asked.size or ["4,32"])]
    target = f"{HERE / dict((n, c) for c, n in models())[asked.only]}.py:{asked.only}"
    result = (
        model_result(asked.run, asked.store)
        if asked.run
        else optimised(target, sizes, asked.minutes, asked.store)
    )
    row = {
        "model": asked.only, "sizes": sizes, "load": os.getloadavg()[0],
        "command": " ".join(["benchmarks.zoo.deployed", *sys.argv[1:]]), "decision": str(result.decision),
        "reason": result.reason, "seconds": result.seconds,
        "speedup": result.speedup.model_dump() if result.speedup else None,
    }  # fmt: skip
    if result.improved:
        row["drift"] = deployed(target, sizes, result, asked.store)
    print(json.dumps(row), flush=True)
    if asked.out is not None:
        with asked.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return 0


def optimised(
    target: str, sizes: Sequence[Size], minutes: float, store: Path | None
) -> ModelResult | SizedResult:
    """Optimise a model at one size or at several, which are called as often."""
    named = [Sizes({"batch": batch, "seq": seq}, 1.0) for batch, seq in sizes]
    if len(named) > 1:
        return optimize_sizes(target, named, minutes=minutes, store=store, device="cpu")
    return optimize_model(
        load_model(target, sizes=named[0].sizes), minutes=minutes, store=store, device="cpu"
    )


def deployed(
    target: str, sizes: Sequence[Size], result: ModelResult | SizedResult, store: Path | None
) -> Row:
    """Return the drift of the patched model against the native one, both served at these sizes."""
    native, changed = (_module(target, sizes[0]) for _ in range(2))
    changed.load_state_dict(native.state_dict())
    patch(changed, result, store=store)
    longest = max(seq for _, seq in sizes)
    lengths = sorted({max(longest // 6, 3), longest // 3, longest // 2 + 1, longest})[
        : max(batch for batch, _ in sizes)
    ]
    sides = [Deployment(Padded(model, sizes), top_p(SHARE, TEMPERATURE)) for model in (native, changed)]
    found = drift(*sides, lengths=lengths, steps=STEPS)
    with Store(store) as kept:
        keep_metadata(kept, MODEL_DRIFT, result.origin, found)
    return {"lengths": lengths, "steps": STEPS, **found.model_dump(mode="json", exclude={"layers"})}


def _module(target: str, size: Size) -> nn.Module:
    return load_model(target, sizes=dict(zip(("batch", "seq"), size, strict=True))).module


if __name__ == "__main__":
    raise SystemExit(main())
