"""An evaluator as a user of the other systems writes it: one input, allclose, a mean of twenty calls.

Called as `evaluate(path)` by OpenEvolve, and started as a program by ShinkaEvolve. The tolerance is the one for
float32 in KernelBench (`src/kernelbench/eval.py`). Every call is logged: the program, and whether it was accepted.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

sys.path.append(os.environ.get("TORCH_SITE", ""))  # after the environment's own packages

import torch

_CALLS = 20
_TOLERANCE = 1e-4


def reference(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def evaluate(path: str) -> dict[str, float]:
    """Return the speedup over the reference, 0 where the program is wrong."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.randn(256, 1024)
    wanted, native_s = reference(x), _mean_s(reference, x)
    try:
        spec = importlib.util.spec_from_file_location("program", path)
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        right = torch.allclose(program.run(x), wanted, rtol=_TOLERANCE, atol=_TOLERANCE)
        speedup = native_s / max(_mean_s(program.run, x), 1e-12) if right else 0.0
    except Exception:  # noqa: BLE001 - a program may raise anything
        speedup = 0.0
    _log(path, speedup)
    return {"combined_score": speedup}


def _mean_s(run, x: torch.Tensor) -> float:
    run(x)
    start = time.perf_counter()
    for _ in range(_CALLS):
        run(x)
    return (time.perf_counter() - start) / _CALLS


def essence(text: str) -> str:
    """Name a program by its text without the markers and blank lines that a system puts around it."""
    lines = (line.rstrip() for line in text.splitlines())
    kept = "\n".join(line for line in lines if line and "EVOLVE-BLOCK" not in line)
    return hashlib.sha256(kept.encode()).hexdigest()


def _log(path: str, speedup: float) -> None:
    with Path(os.environ["EVALUATED"]).open("a") as log:
        log.write(json.dumps({"program": essence(Path(path).read_text()), "speedup": speedup}) + "\n")


def main() -> None:
    """Score a program as ShinkaEvolve wants it: two files in a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    given, _ = parser.parse_known_args()
    score = evaluate(given.program_path)
    folder = Path(given.results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(score))
    correct = {"correct": score["combined_score"] > 0, "error": None if score["combined_score"] else "wrong"}
    (folder / "correct.json").write_text(json.dumps(correct))


if __name__ == "__main__":
    main()
