"""Times on a GPU against the times that were modelled for it: rank correlation, and how often an interval holds.

    python -m benchmarks.gpu.timed_kernels --out FILE               # first, anywhere
    python -m benchmarks.gpu.executor_times --cases FILE --out rows --seconds 40

A family's kernels take turns; a figure is the median of the rounds' times of a launch, by events around several
launches in a row. Results of the first launch are checked; a kernel that is wrong has no time.

Covers: launches back to back, inputs as large as `timed_kernels` has them. Does not cover: the host's part of a launch.
"""

import argparse
import json
import statistics
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from .about import environment
from .driver import Driver, Placed
from .timed_kernels import Launch, record_of, timed

ROUNDS = 9
ROUND_US = 1500.0
"""Of launches in a row, at least one."""
TOGETHER = 4
"""Kernels whose memory lies on the device at once, taking turns."""
AHEAD = 8
"""Kernels whose inputs are made ahead."""


def placed(
    driver: Driver, launch: Launch, row: dict[str, Any], image: bytes
) -> tuple[Placed, Callable[[], bool]]:
    """Put a launch on the device, do it once and return what tells whether it is right."""
    record = record_of(row, image, launch)
    there = driver.place(record)
    driver.start(there)
    driver.wait()
    given = launch.arguments if row["kept"] is None else [launch.arguments[n] for n in row["kept"]]
    names = [r.name for r in record.regions]
    for number, value in enumerate(given):
        array = getattr(value, "array", None)
        if array is not None:
            content = driver.result(there, names.index(f"argument {number}"))
            array[...] = np.frombuffer(content, array.dtype).reshape(array.shape)
    return there, launch.right


def rounds(driver: Driver, there: Sequence[Placed]) -> list[list[float]]:
    """Return the times of a launch of each, round by round."""
    first, last = driver.events(2)
    counts = []
    for p in there:
        for _ in range(2):
            driver.mark(first)
            driver.start(p)
            driver.mark(last)
            once = driver.between_us(first, last)
        counts.append(max(1, min(100, round(ROUND_US / max(once, 1.0)))))
    times: list[list[float]] = [[] for _ in there]
    for _ in range(ROUNDS):
        for p, count, found in zip(there, counts, times, strict=True):
            driver.mark(first)
            for _ in range(count):
                driver.start(p)
            driver.mark(last)
            found.append(driver.between_us(first, last) / count)
    return times


def measured(cases: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield a row for each kernel: modelled and timed."""
    end = time.monotonic() + seconds
    driver = Driver()
    with zipfile.ZipFile(cases) as file, ThreadPoolExecutor(AHEAD) as pool:
        device = "h200-sxm" if "H200" in driver.name() else "h100-sxm"
        known = json.loads(file.read("rows.json"))
        rows = {(r["family"], r["name"]): r | {"modelled": r["modelled"][device]} for r in known}
        waiting = [c for c in timed() if (c.family, c.name) in rows]
        made: dict[tuple[str, str], Future[Launch]] = {}
        while waiting and time.monotonic() < end:
            part = [c for c in waiting if c.family == waiting[0].family][:TOGETHER]
            waiting = [c for c in waiting if c not in part]
            for c in (*part, *waiting[: AHEAD - TOGETHER]):
                if (c.family, c.name) not in made:
                    made[c.family, c.name] = pool.submit(c.whole)
            own = [rows[c.family, c.name] for c in part]
            launches = [made.pop((c.family, c.name)).result() for c in part]
            there = [
                placed(driver, x, row, file.read(row["image"])) for x, row in zip(launches, own, strict=True)
            ]
            right = [pool.submit(check) for _, check in there]
            for row, (one, _), ok, times in zip(
                own, there, right, rounds(driver, [p for p, _ in there]), strict=True
            ):
                driver.free(one)
                found: dict[str, Any] = {"right": bool(ok.result())}
                if found["right"]:
                    found |= {"us": statistics.median(times), "times_us": times}
                yield _kept(row) | found


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    return {
        k: row[k] for k in ("family", "name", "registers", "scale", "modelled", "counters", "grid", "block")
    }


def correlation(rows: Sequence[dict[str, Any]]) -> float:
    """Return Spearman's rank correlation of modelled and measured times."""
    pairs = [(r["us"], (r["modelled"]["low_us"] * r["modelled"]["high_us"]) ** 0.5) for r in rows]
    ranks = [np.argsort(np.argsort([p[n] for p in pairs])) for n in (0, 1)]
    return float(np.corrcoef(*ranks)[0, 1])


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each family."""
    lines = [
        f"{'family':14}{'kernels':>8}{'wrong':>6}{'rank':>7}{'inside':>8}{'below':>7}{'above':>7}  real/low, median"
    ]
    good = [r for r in rows if "us" in r]
    families = list(dict.fromkeys(r["family"] for r in rows))
    for name in [*families, "all"]:
        own = [r for r in good if name in {r["family"], "all"}]
        wrong = sum(r["family"] == name or name == "all" for r in rows) - len(own)
        below = sum(r["us"] < r["modelled"]["low_us"] for r in own)
        above = sum(r["us"] > r["modelled"]["high_us"] for r in own)
        rank = correlation(own) if len(own) > 2 else float("nan")
        ratio = statistics.median(r["us"] / r["modelled"]["low_us"] for r in own) if own else float("nan")
        lines.append(
            f"{name:14}{len(own):8}{wrong:6}{rank:7.2f}{len(own) - below - above:8}{below:7}{above:7}  {ratio:.2f}"
        )
    return lines


def main() -> int:
    """Time all and write a row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True, help="what timed_kernels wrote")
    parser.add_argument("--out", type=Path, required=True, help="file of rows, JSON lines")
    parser.add_argument("--seconds", type=float, default=40.0)
    words = parser.parse_args()
    words.out.parent.mkdir(parents=True, exist_ok=True)
    about = environment("benchmarks.gpu.executor_times")
    rows = []
    with words.out.with_suffix(".jsonl").open("w") as file:
        file.write(json.dumps(about) + "\n")
        try:
            for row in measured(words.cases, words.seconds):
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
        except Exception:  # noqa: BLE001  (what was measured is shown all the same)
            traceback.print_exc()
    print("\n".join(table(rows)))
    return 0 if rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
