"""The exploits and honest kernels of `tests/gpu/adversarial/`, each judged on a GPU: what refused it, and when.

    python -m benchmarks.gpu.adversarial --out FILE.jsonl [--seconds 150] [--children 3] [--only side_stream,cublas]

First the environment, then a row for each file as soon as it is known: the check that failed first, its message, the
checks that should have, those that could not be made, what was timed, and whether that is right: an exploit is caught
by a check that it expects, an honest kernel by none with every check made. Judged several at a time (`--children`),
each finds the GPU in use by others: clocks are noisy, and `gpu-held` is not known.
Needs a CUDA device (exit 4 without one).
"""

import argparse
import json
import statistics
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.adversarial.exploit import read_exploit
from tests.adversarial.honest import FOLDER as HONEST
from tests.adversarial.honest import read_honest
from tests.adversarial.judge import Judge

from kernelwright.records import Block

from ._children import Row, answered, serve
from .about import environment

EXPLOITS = HONEST.parent / "exploits"
EACH_S = 90.0
"""Seconds that one may take."""


def main() -> int:
    """Judge all and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("adversarial.jsonl"))
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--children", type=int, default=1)
    parser.add_argument("--only", type=lambda words: words.split(","), default=[])
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return served()
    files = [*sorted(EXPLOITS.glob("*.py")), *sorted(HONEST.glob("*.*"))]
    items = [
        {"kind": path.parent.name, "name": path.name}
        for path in files
        if path.suffix in {".py", ".cu"} and (not options.only or path.stem in options.only)
    ]
    about, until = environment("benchmarks.gpu.adversarial"), time.monotonic() + options.seconds
    rows = []
    with options.out.open("w") as file:
        file.write(json.dumps(about) + "\n")
        for row in answered(
            f"{__spec__.name}",
            items,
            children=options.children,
            until=until,
            each_s=EACH_S,
            words=("--serve",),
        ):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(line(row), flush=True)
    right = sum(r.get("right", False) for r in rows)
    print(f"{right} of {len(rows)} as they should be; {len(items) - len(rows)} not reached")
    return 0


def served() -> int:
    """Judge what comes in, on one pool that is kept."""
    with tempfile.TemporaryDirectory() as folder, Judge(Path(folder), "cuda:0") as judge:
        serve(lambda item: judged(judge, item))
    return 0


def judged(judge: Judge, item: Row) -> Row:
    """Return what became of one file."""
    honest = item["kind"] == HONEST.name
    one = read_honest(HONEST / item["name"]) if honest else read_exploit(EXPLOITS / item["name"])
    begun = time.monotonic()
    try:
        outcome = judge.judge(one)
    except Exception:  # noqa: BLE001 - what failed is the row
        return {"status": "failed", "why": traceback.format_exc(), "seconds": time.monotonic() - begun}
    right = (outcome.caught_by in one.expect) if one.expect else not (outcome.caught_by or outcome.unknown)
    return {
        "status": "judged",
        "right": right,
        "caught_by": outcome.caught_by,
        "expected": sorted(one.expect),
        "unknown": list(outcome.unknown),
        "message": outcome.message[:1000],
        "blocks": timed(outcome.blocks),
        "seconds": round(time.monotonic() - begun, 1),
    }


def timed(blocks: Sequence[Block]) -> Row:
    """Return medians of what was timed, by variant: microseconds of a call, and of others on the GPU around them."""
    kinds = {"time": "times_us", "device": "device_us", "taken": "taken_us", "left": "left_us"}
    found: Row = {"count": len(blocks), "calls": sorted({b.calls for b in blocks})}
    for kind, field in kinds.items():
        by_name: dict[str, list[float]] = {}
        for block in blocks:
            for name, us in getattr(block, field).items():
                by_name.setdefault(name, []).append(us)
        found[f"{kind}_us"] = {name: round(statistics.median(us), 2) for name, us in by_name.items()}
    return found


def line(row: Row) -> str:
    """Return a row for people."""
    said = f"{row['kind']:8} {row['name']:26} {row['status']:8} {row.get('seconds', 0):5.1f} s  "
    if row["status"] != "judged":
        return said + row.get("why", "")[-1500:]
    caught = f"{row['caught_by'] or 'nothing'}: {row['message'][:300]}" + (
        f" unknown: {', '.join(row['unknown'])}" if row["unknown"] else ""
    )
    return said + (caught if row["right"] else f"NOT AS EXPECTED ({', '.join(row['expected'])}): {caught}")


if __name__ == "__main__":
    raise SystemExit(main())
