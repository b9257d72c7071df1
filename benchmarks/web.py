"""Kernels in a browser: tuned in a headless Chromium, against their scalar build and onnxruntime-web.

    python -m benchmarks.web --onnxruntime DIR [--only NAME ...] [--seconds 2] [--out rows.jsonl]

One row for each operator of `benchmarks/tasks/web.py` and each model of `benchmarks/web_models`: medians and ratios
over interleaved blocks, with the raw blocks. `scalar` compares kernels on data that is there; `onnxruntime-web`
compares calls that copy inputs in and outputs out, one thread each.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from kernelwright.api.web import on_web, runtime_folder, tune
from kernelwright.tasks import load_task

HERE = Path(__file__).parent
OPERATORS = HERE / "tasks" / "web.py"
MODELS = HERE / "web_models"
KEPT = ("ratios", "medians", "seconds", "runtime", "runtime_error", "rows", "blocks", "device")


def targets() -> dict[str, str]:
    """Return the target of each operator and model by name."""
    names = re.findall(r"^def (\w+)", OPERATORS.read_text(), re.MULTILINE)
    models = {path.stem: str(path) for path in sorted(MODELS.glob("*.py"))}
    return {name: f"{OPERATORS}:{name}" for name in names} | models


def rows(only: list[str], seconds: float, runtime: Path | None) -> Iterator[dict[str, object]]:
    """Tune and yield a row for each."""
    for name, target in targets().items():
        if only and name not in only:
            continue
        made = on_web(load_task(target))
        tuned = tune(made, budget_s=seconds, runtime=runtime)
        found = tuned.report
        if "rows" not in found:
            yield {"name": name, "ok": False, "message": found.get("message")}
            continue
        yield {
            "name": name, "workload": made.workload.name, "ok": tuned.ok, "fresh_error": tuned.error,
            **{key: found[key] for key in KEPT},
        }  # fmt: skip


def main() -> None:
    """Print a line for each, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnxruntime", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines, total = [], 0.0
    for row in rows(given.only, given.seconds, runtime_folder(given.onnxruntime)):
        lines.append(json.dumps(row))
        ratios, spent = row.get("ratios", {}), row.get("seconds", 0.0)
        assert isinstance(ratios, dict) and isinstance(spent, float)
        total += spent
        told = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in ratios.items()) or row.get("message")
        print(
            f"{row['name']:20} {'right' if row['ok'] else 'WRONG':6} {told}, tuned in {spent:.1f} s",
            flush=True,
        )
    print(f"{total:.1f} s of tuning for {len(lines)}")
    if given.out:
        given.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
