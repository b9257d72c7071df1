"""The evaluator that all take: load a program, check one answer, read its planted speed, log the call.

Imported by us, called as `evaluate(path)` by OpenEvolve, and started as a program by ShinkaEvolve.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path


def judge(path: str) -> tuple[bool, float]:
    """Tell whether a program is right and how fast it claims to be."""
    text = Path(path).read_text()
    with Path(os.environ["CYCLE_LOG"]).open("a") as log:
        log.write(hashlib.sha256(_essence(text).encode()).hexdigest() + "\n")
    namespace: dict = {}
    try:
        exec(compile(text, path, "exec"), namespace)
        return namespace["run"](3.0) == 6.0, float(namespace.get("SPEED", 1.0))
    except Exception:  # noqa: BLE001 - a program may raise anything
        return False, 0.0


def _essence(text: str) -> str:
    """Leave out the markers and blank lines that a system puts around a program."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and "EVOLVE-BLOCK" not in line)


def evaluate(path: str) -> dict[str, float]:
    """Score a program as OpenEvolve wants it."""
    right, speed = judge(path)
    return {"combined_score": speed if right else 0.0}


def main() -> None:
    """Score a program as ShinkaEvolve wants it: two files in a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", required=True)
    parser.add_argument("--results_dir", required=True)
    given, _ = parser.parse_known_args()
    right, speed = judge(given.program_path)
    folder = Path(given.results_dir)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps({"combined_score": speed if right else 0.0}))
    (folder / "correct.json").write_text(json.dumps({"correct": right, "error": None if right else "wrong"}))


if __name__ == "__main__":
    main()
