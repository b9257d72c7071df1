"""The planted faults under NVIDIA's compute-sanitizer, compared with what the PTX executor found in them.

    python -m benchmarks.gpu.executor_cases --out FOLDER --only faults     # first, anywhere
    python -m benchmarks.gpu.sanitised --cases FOLDER --out rows --seconds 60

Each tool runs over all launches, in several processes; a launch that hangs ends its process, and another goes on behind
it. What a tool says between two launches belongs to the first of them.

Covers: memcheck, racecheck, initcheck, synccheck, each as it is by default. Does not cover: launches that wait forever.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .about import environment
from .launches import labels, read

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PARTS = 3
"""Processes of each tool."""
SILENT_S = 20.0
_BEGUN = re.compile(r'^\{"begun": (\d+), "label": "([^"]*)"\}')
_SAID = re.compile(r"^========= (?:(?:Error|Warning): )?([A-Z].*)")
_NOISE = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "LEAK SUMMARY", "Saved host backtrace",
          "Host Frame", "Target application", "Program hit", "Address", "Device Frame", "Current")  # fmt: skip


def said_in(text: str, order: list[str]) -> dict[str, Counter[str]]:
    """Return what a tool said of each launch."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    name = ""
    for line in text.splitlines():
        begun, said = _BEGUN.match(line), _SAID.match(line)
        if begun:
            name = begun[2]
            order.append(name)
        elif said and name and not said[1].startswith(_NOISE):
            found[name][re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+", "N", said[1])[:90]] += 1
    return found


def under(
    tool: str, part: int, words: argparse.Namespace, end: float
) -> tuple[dict[str, Counter[str]], list[str], str]:
    """Run a tool over a part of the launches; return what it said, the launches that were begun, and its last words."""
    found: dict[str, Counter[str]] = {}
    order: list[str] = []
    first, text = 0, ""
    while time.monotonic() < end:
        command = [
            words.sanitizer, "--tool", tool, "--print-limit", "0", "--show-backtrace", "no",
            *(["--destroy-on-device-error", "kernel", "--padding", "64"] if tool == "memcheck" else []),
            sys.executable, "-m", "benchmarks.gpu.replay", "--cases", str(words.cases), "--faulty",
            "--part", f"{part}/{PARTS}", "--from", str(first), "--fresh",
        ]  # fmt: skip
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
            code = _watched(process, log.fileno(), end)
            log.seek(0)
            text = log.read().decode(errors="replace")
        before = len(order)
        found |= said_in(text, order)
        first += len(order) - before
        if code == 0 or len(order) == before:
            break
    return found, order, text[-1500:]


def _watched(process: "subprocess.Popen[bytes]", log: int, end: float) -> int:
    """Wait for a process; kill its group when it is silent for long, or the time is up."""
    size, heard = 0, time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = os.fstat(log).st_size
        if now != size:
            size, heard = now, time.monotonic()
        if time.monotonic() > min(end, heard + SILENT_S):
            os.killpg(process.pid, 9)
            process.wait()
    return process.returncode


def main() -> int:
    """Run all tools and write a row for each planted fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file of rows, JSON lines")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sanitizer", default="compute-sanitizer")
    words = parser.parse_args()
    words.out.parent.mkdir(parents=True, exist_ok=True)
    about = environment("benchmarks.gpu.sanitised")
    end = time.monotonic() + words.seconds
    jobs = [(tool, part) for part in range(PARTS) for tool in TOOLS]
    with ThreadPoolExecutor(len(jobs)) as pool:
        results = list(pool.map(lambda j: under(*j, words, end), jobs))
    said: dict[str, dict[str, Any]] = defaultdict(dict)
    for (tool, _), (found, order, _) in zip(jobs, results, strict=True):
        for name in order:
            said[name][tool] = dict(found.get(name, {}))
    rows = []
    for path, number, name in labels(words.cases, faulty=True):
        record = read(path, number)
        rows.append(
            {
                "label": name,
                "executor": list(record.findings),
                "status": record.status,
                "tools": said.get(name, {}),
            }
        )
    with words.out.with_suffix(".jsonl").open("w") as file:
        for row in (about, *rows):
            file.write(json.dumps(row) + "\n")
        file.write(
            json.dumps({"last words": {f"{t} {p}": r[2] for (t, p), r in zip(jobs, results, strict=True)}})
            + "\n"
        )
    tried = [r for r in rows if len(r["tools"]) == len(TOOLS)]
    print(f"{len(rows)} planted faults; {len(tried)} tried under every tool")
    for tool in TOOLS:
        print(f"{tool}: {sum(bool(r['tools'][tool]) for r in tried)} found")
    print(f"any tool: {sum(any(r['tools'].values()) for r in tried)} found; the executor: all {len(tried)}")
    missed = [r for r in tried if not any(r["tools"].values())]
    print("by no tool:", Counter(kind for r in missed for kind in r["executor"]))
    return 0 if rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
