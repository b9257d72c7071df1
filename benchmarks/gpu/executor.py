"""The PTX executor against a GPU: launches that it has executed, done again there, compared byte by byte.

    python -m benchmarks.gpu.executor_cases --out cases                  # first, anywhere: what is done again
    python -m benchmarks.gpu.executor --cases cases --out rows --seconds 90
    python -m benchmarks.gpu.executor --cases cases --out rows --device executor   # a rehearsal without a GPU

Needs the CUDA driver and nothing else of CUDA. A worker that hangs or dies costs the launch that it was at.

Covers: results of single instructions, matrices, atomics, kernels, the executor's own tests. Does not cover: times.
"""

import argparse
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from . import replay
from .launches import labels

SILENT_S = 15.0
"""A worker that says nothing for so long hangs."""


class Worker:
    """A process that does some of the launches, started again behind the one at which it ends early."""

    def __init__(self, words: Sequence[str], number: int, of: int, log: IO[bytes]) -> None:
        self._words, self._slice, self._log = words, f"{number}/{of}", log
        self.at, self.label, self.done = 0, "", False
        self.start()

    def start(self) -> None:
        """Start behind the last launch that was begun."""
        self.heard, self._rest, self.began = time.monotonic(), b"", self.at
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.replay", *self._words, "--part", self._slice,
             "--from", str(self.at)],
            stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    def read(self) -> list[dict[str, Any]]:
        """Return the rows that came."""
        assert self.process.stdout
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        self.heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        rows = []
        for line in lines:
            if not line.startswith(b'{"'):
                continue  # what a kernel printed
            row = json.loads(line)
            if "begun" in row:
                self.at, self.label = row["begun"] + 1, row["label"]
            else:
                rows.append(row)
        if not data:
            code = self.process.wait()
            stuck = code and self.at == self.began
            if code not in {0, replay.LOST}:
                rows.append({"label": self.label or "start/", "state": "died", "why": f"exit code {code}"})
            self.done = code == 0 or bool(stuck)
            if not self.done:
                self.start()
        return rows

    def stop(self) -> None:
        """End the process for good."""
        self.process.kill()
        self.process.wait()


def rows_of(words: argparse.Namespace, log: IO[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the workers' rows until all is done or the time is up."""
    end = time.monotonic() + words.seconds
    given = [
        "--cases",
        str(words.cases),
        "--device",
        words.device,
        *(["--only", *words.only] if words.only else []),
    ]
    workers = [Worker(given, n, words.workers, log) for n in range(words.workers)]
    try:
        while not all(w.done for w in workers) and time.monotonic() < end:
            with selectors.DefaultSelector() as ready:
                for w in workers:
                    if not w.done and w.process.stdout:
                        ready.register(w.process.stdout, selectors.EVENT_READ, w)
                for key, _ in ready.select(timeout=0.5):
                    yield from key.data.read()
            for w in workers:
                if not w.done and time.monotonic() - w.heard > SILENT_S:
                    w.stop()
                    yield {"label": w.label, "state": "hung", "why": f"nothing for {SILENT_S:g} s"}
                    w.start()
    finally:
        for w in workers:
            w.stop()


def table(rows: Sequence[dict[str, Any]], known: int) -> list[str]:
    """Return what was found, a line for each part, and the first differences."""
    parts = sorted({r["label"].split("/")[0] for r in rows})
    lines = [f"{'part':14}{'launches':>9}{'equal':>7}{'differ':>7}{'failed':>7}  right"]
    for part in parts:
        own = [r for r in rows if r["label"].split("/")[0] == part]
        states = Counter(r["state"] for r in own)
        failed = len(own) - states["equal"] - states["differs"]
        right = Counter(str(r["right"]) for r in own if "right" in r)
        lines.append(
            f"{part:14}{len(own):9}{states['equal']:7}{states['differs']:7}{failed:7}  {dict(right)}"
        )
    tried = sum(r.get("instructions", 0) for r in rows)
    wrong = sum(len(r.get("wrong", ())) for r in rows)
    lines.append(
        f"{len(rows)} of {known} launches; {tried} instructions by themselves, {wrong} of which differ"
    )
    shown = [r for r in rows if r["state"] not in {"equal", "differs"} or r.get("right") is False]
    lines += [f"{r['state']}: {r['label']}: {r.get('why', '')}"[:160] for r in shown[:22]]
    return lines


def main() -> int:
    """Do all launches again and write a row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, required=True, help="folder that executor_cases filled")
    parser.add_argument("--out", type=Path, required=True, help="file of rows, JSON lines")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--device", choices=replay.DEVICES, default="cuda")
    parser.add_argument("--only", nargs="+", help="parts, for example `matrices`")
    words = parser.parse_args()
    words.out.parent.mkdir(parents=True, exist_ok=True)
    known = len(labels(words.cases, words.only))
    rows = []
    with words.out.with_suffix(".jsonl").open("w") as file, tempfile.TemporaryFile() as log:
        file.write(json.dumps(replay.environment(words.device)) + "\n")
        for row in rows_of(words, log):
            rows.append(row)
            file.write(json.dumps(row) + "\n")
            file.flush()
        log.seek(0)
        said = log.read().decode(errors="replace")
        file.write(json.dumps({"said": said[-20_000:]}) + "\n")
    print("\n".join(table(rows, known)))
    print(said[-1000:])
    return 0 if rows else 1


if __name__ == "__main__":
    raise SystemExit(main())
