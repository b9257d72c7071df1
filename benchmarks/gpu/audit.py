"""A published set of kernels on the GPU that they are for: what of it holds, several judged at a time.

    python -m benchmarks.gpu.audit SET --data KERNELBENCH --out FILE.jsonl [--only 2/96,1/12] [--seconds 240] [--screen]

First the environment, then a row for each kernel as soon as it is known: those of `kernelwright suite audit` with the
verdict in a word. Kernels come by their published speedups, highest first. With `--children` above 1 the GPU is
shared, so that what is right is known and what is faster is not. Needs a CUDA device (exit 4 without one).
"""

import argparse
import json
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from kernelwright.suites import audit_all, get_suite, read_published, setup, standing_of

from ._children import Row, answered, serve
from .about import environment


def main() -> int:
    """Audit and write."""
    asked = _asked()
    if asked.serve:
        return served(asked)
    about, until = environment("benchmarks.gpu.audit"), time.monotonic() + asked.seconds
    suite = get_suite(asked.benchmark)
    published = read_published(asked.set, suite, suite.problems(asked.data))
    chosen = [one for one in published if one.text and (not asked.only or one.label in asked.only)]
    chosen.sort(key=lambda one: -(one.claimed or 0.0))
    words = [str(asked.set), "--data", str(asked.data), "--benchmark", asked.benchmark, "--serve", "--minutes",
             str(asked.minutes), *(["--screen"] if asked.screen else [])]  # fmt: skip
    with asked.out.open("w") as file:
        file.write(json.dumps(about) + "\n")
        items = [{"label": one.label, "claimed": one.claimed} for one in chosen]
        each_s = 60 * asked.minutes + 30
        for row in answered(
            __spec__.name, items, children=asked.children, until=until, each_s=each_s, words=words
        ):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(line(row), flush=True)
    return 0


def served(asked: argparse.Namespace) -> int:
    """Audit what comes in."""
    suite = get_suite(asked.benchmark)
    published = {one.label: one for one in read_published(asked.set, suite, suite.problems(asked.data))}
    with tempfile.TemporaryDirectory() as store:
        options = {"store": Path(store), "device": "cuda:0", "minutes": asked.minutes, "screen": asked.screen}
        with setup(suite, asked.data, **options) as given:

            def answer(item: Row) -> Row:
                try:
                    (row,) = audit_all(suite, [published[item["label"]]], given, gpu=True)
                except Exception:  # noqa: BLE001 - what failed is the row
                    return {"status": "failed", "why": traceback.format_exc()[-3000:]}
                return {"status": standing_of(row), **row.model_dump(mode="json")}

            serve(answer)
    return 0


def line(row: Row) -> str:
    """Return a row for people."""
    ours, theirs = row.get("ours") or {}, row.get("theirs") or {}
    gain: Any = (ours.get("speedup") or {}).get("median")
    said = f"{row['label']:6} {row['claimed']} {row['status']:8} {row.get('seconds', 0):5.1f} s  {gain}  "
    if not ours:
        return said + str(row.get("why", ""))[-600:]
    times = f"{theirs.get('time_us')} of {theirs.get('reference_us')} us"
    return f"{said}theirs: {theirs.get('status')} {times} {str(theirs.get('message'))[:160]!r}; {ours['reason'][:300]}"


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("audit.jsonl"))
    parser.add_argument("--benchmark", default="kernelbench")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--minutes", type=float, default=2.0, help="most of each kernel")
    parser.add_argument("--children", type=int, default=1)
    parser.add_argument("--only", type=lambda words: words.split(","), default=[])
    parser.add_argument(
        "--screen", action="store_true", help="stop our verdict where a search ranks a kernel"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
