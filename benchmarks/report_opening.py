"""How long Chromium takes to open the report of a benchmark.

    python -m benchmarks.report_opening [--problems 250] [--rows FILE] [--picture report.png] [--out rows.jsonl]

Writes a report of planted rows, or of a file of rows, and opens it without a window in a fresh profile each time. The
time is the page's own, from the start of navigation until everything is loaded and laid out; painting and the start of
the browser are apart. The exit code is 1 where the least is a second or more.
"""

import argparse
import html
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.records import Interval
from kernelwright.report import SuiteReport, render_suite
from kernelwright.suites import Ours, Row, Theirs, read_rows
from kernelwright.web import browser

_SAYS_WHEN = """<script>addEventListener("load", () => { document.body.getBoundingClientRect();
  document.documentElement.setAttribute("data-opened", performance.now()); })</script>"""
"""Measuring a box makes the browser lay everything out."""
_GOAL_MS = 1000.0
_PATIENCE_MS = 60_000


def planted_rows(count: int, seed: int = 0) -> list[Row]:
    """Return rows as a run over a benchmark has them: of every standing, with reasons and flags."""
    dice, rows = random.Random(seed), []
    for number in range(count):
        decision = dice.choice(["improved", "improved", "equal", "slower", "inconclusive", "rejected"])
        gain = dice.lognormvariate(0.3, 0.5)
        refused = decision == "rejected"
        rows.append(
            Row(
                suite="kernelbench", problem=f"level{number % 4 + 1}/{number}_Conv2d_Subtract_HardSwish_MaxPool_Mish",
                group=f"level{number % 4 + 1}", candidate=f"run:261125-{number:06d}-abcdef:{number:016x}",
                sizes="batch_size 128 to 4, height 256 to 32, width 256 to 32", seconds=60.0,
                theirs=Theirs(
                    status=dice.choice(["correct", "correct", "wrong", "unknown"]), time_us=100.0,
                    reference_us=100 * gain, flags=("excessive speedup",) if gain > 3 else (),
                    message="output mismatch, at most 0.0123 off" if refused else "",
                ),
                ours=Ours(
                    verdict="rejected" if refused else "accepted", decision=decision, run=f"261125-{number:06d}-abcdef",
                    speedup=None if refused else Interval(median=gain, low=gain * 0.97, high=gain * 1.03),
                    failed=("stale_output", "oracle") if refused else (),
                    reason="an element is off by 0.0123" if refused else "",
                ),
            )
        )  # fmt: skip
    return rows


def opened(page: Path, picture: Path | None = None) -> dict[str, float]:
    """Open a page once and return milliseconds: the page's own, and the whole process's."""
    program = browser()
    if program is None:
        sys.exit("no Chromium on the PATH")
    what = [f"--screenshot={picture}", "--window-size=1200,2400"] if picture else ["--dump-dom"]
    rights = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        begun = time.perf_counter()
        done = subprocess.run(
            [program, "--headless=new", *rights, "--disable-gpu", f"--user-data-dir={profile}", "--no-first-run",
             f"--timeout={_PATIENCE_MS}", *what, page.as_uri()],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        whole_ms = (time.perf_counter() - begun) * 1e3
    found = re.search(r'data-opened="([\d.]+)"', done.stdout)
    if picture is None and found is None:
        sys.exit(f"the page did not say when it was open: {html.escape(done.stderr[-300:])}")
    return {"opened_ms": float(found[1]) if found else 0.0, "process_ms": round(whole_ms, 1)}


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report, open it a few times, and print a row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=250)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    rows = read_rows(asked.rows) if asked.rows else planted_rows(asked.problems)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        begun = time.perf_counter()
        text = render_suite(SuiteReport(title="kernelbench", rows=rows))
        rendered_ms = (time.perf_counter() - begun) * 1e3
        page.write_text(text.replace("</head>", f"{_SAYS_WHEN}</head>", 1))
        times = sorted(opened(page)["opened_ms"] for _ in range(asked.times))
        if asked.picture:
            opened(page, asked.picture.resolve())
    row: dict[str, Any] = {
        "problems": len(rows), "bytes": len(text.encode()), "rendered_ms": round(rendered_ms, 1),
        "least_ms": times[0], "median_ms": times[len(times) // 2], "most_ms": times[-1],
        "load": round(os.getloadavg()[0], 2), "command": "python -m benchmarks.report_opening",
    }  # fmt: skip
    print(line := json.dumps(row))
    if asked.out:
        with asked.out.open("a") as out:
            out.write(line + "\n")
    return int(times[0] >= _GOAL_MS)


if __name__ == "__main__":
    sys.exit(main())
