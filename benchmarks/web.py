"""Kernels in a browser: tuned in a headless Chromium, against their scalar build, onnxruntime-web and TensorFlow.js.

    python -m benchmarks.web --onnxruntime DIR [--tfjs DIR] [--only NAME ...] [--seconds 2] [--out rows.jsonl]

One row for each operator of `benchmarks/tasks/web.py` and each model of `benchmarks/web_models`: medians and ratios
over interleaved blocks, with the raw blocks. `scalar` compares kernels on data that is there; `onnxruntime-web`
and `tfjs` compare calls that copy inputs in and outputs out, one thread each. DIR is where npm has installed
`onnxruntime-web`, and `@tensorflow/tfjs` with `@tensorflow/tfjs-backend-wasm` (`web_tfjs.mjs` has the operators).
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from kernelwright.api.web import on_web, runtime_folder, tune
from kernelwright.tasks import load_task
from kernelwright.web import Peer

HERE = Path(__file__).parent
OPERATORS = HERE / "tasks" / "web.py"
MODELS = HERE / "web_models"
KEPT = ("ratios", "medians", "seconds", "runtimes", "rows", "blocks", "device")


def targets() -> dict[str, str]:
    """Return the target of each operator and model by name."""
    names = re.findall(r"^def (\w+)", OPERATORS.read_text(), re.MULTILINE)
    models = {path.stem: str(path) for path in sorted(MODELS.glob("*.py"))}
    return {name: f"{OPERATORS}:{name}" for name in names} | models


def tfjs(folder: Path | None) -> Peer | None:
    """Return TensorFlow.js as npm has installed it in a folder."""
    if folder is None:
        return None
    packages = [
        folder / "node_modules" / "@tensorflow" / name / "dist" for name in ("tfjs", "tfjs-backend-wasm")
    ]
    if missing := [str(p) for p in packages if not p.is_dir()]:
        raise SystemExit(f"no {missing[0]}; npm install @tensorflow/tfjs @tensorflow/tfjs-backend-wasm there")
    return Peer(HERE / "web_tfjs.mjs", tuple(packages))


def rows(
    only: list[str], seconds: float, runtime: Path | None, peer: Peer | None
) -> Iterator[dict[str, object]]:
    """Tune and yield a row for each."""
    for name, target in targets().items():
        if only and name not in only:
            continue
        made = on_web(load_task(target))
        tuned = tune(made, budget_s=seconds, runtime=runtime, peer=peer)
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
    parser.add_argument("--tfjs", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines, total = [], 0.0
    for row in rows(given.only, given.seconds, runtime_folder(given.onnxruntime), tfjs(given.tfjs)):
        lines.append(json.dumps(row))
        if given.out:
            given.out.write_text("".join(f"{line}\n" for line in lines))
        ratios, spent = row.get("ratios", {}), row.get("seconds", 0.0)
        assert isinstance(ratios, dict) and isinstance(spent, float)
        total += spent
        told = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in ratios.items()) or row.get("message")
        print(
            f"{row['name']:20} {'right' if row['ok'] else 'WRONG':6} {told}, tuned in {spent:.1f} s",
            flush=True,
        )
    print(f"{total:.1f} s of tuning for {len(lines)}")


if __name__ == "__main__":
    main()
