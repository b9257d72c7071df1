"""Whether every run ends in words: many short runs, each with a fault at one of its stages.

    python -m benchmarks.soak [--runs 200] [--out FOLDER] [--json]

Each run is the real program in a process of its own, over a planted judge (`benchmarks/soaked_run.py`). Planted are
signals, exceptions, no memory, at the first or the second time that a stage is come by; and, from outside, a reader
that leaves, standard output on a full device, a limit on the size of files, a limit on processor time, and a SIGKILL at
any moment. A few runs are real ones, of the library's kernels under the real judge, whose workers are killed, or the
judge itself. An end is accounted for when
- the run finished, with exit code 0 and a result; or
- the store, or the run's lock, says why it ended, the exit code is not 0, and, where the process lived to say it and
  somebody read it, the last line is an `error` event; or
- there was no run yet, or the store says that it had finished, with the same of exit code and event.

Ends are kept in FOLDER/ends.jsonl (by default in a folder of the user's cache), and the same command goes on where it
stopped. Exit code 1: an end was not accounted for.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright.config import Settings
from kernelwright.records import RunStatus
from kernelwright.sandbox._inspection import descendants
from kernelwright.store import Store

from .soaked_run import KINDS, STAGES

OUTSIDE = ("reader-leaves", "full-output", "file-size", "processor-time", "killed", "terminated")
REAL = ("workers-killed", "reader-leaves", "killed", "terminated")
_TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""
_MOST_S = 120.0
_FILE_BYTES = 120_000


@dataclass(frozen=True)
class End:
    """How one run ended."""

    number: int
    fault: str
    exit_code: int
    status: str
    """As the store tells it; `no run` where none had begun."""
    reason: str
    """The run's reason, or the words of the `error` event where there was no run, or of the result."""
    accounted: bool
    wall_s: float


def faults(runs: int) -> list[str]:
    """Return what is planted in each run: everything inside once, then from outside, then at later times."""
    inside = [f"{stage}:{kind}" for stage in STAGES for kind in KINDS]
    random.Random(0).shuffle(inside)
    first, later = [f"{f}:0" for f in inside], [f"{f}:1" for f in inside]
    outside = [*(f"outside:{kind}" for kind in OUTSIDE), *(f"real:{kind}" for kind in REAL)]
    return ((outside + first[:80] + outside + first[80:] + later) * (1 + runs // len(first)))[:runs]


def soak(number: int, fault: str, folder: Path) -> End:
    """Make one run and account for its end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "double.py").write_text(_TASK)
    begun = time.monotonic()
    code, lines, read = _made(number, fault, folder)
    status, reason = _told(folder / "store", lines)
    if status == "no run" and code < 0:
        reason = f"killed by {signal.Signals(-code).name} before a run began"
    spoken = code < 0 or not read or bool(lines and lines[-1].get("event") == "error")
    finished = status == RunStatus.FINISHED and code == 0
    accounted = finished or bool((reason or status == RunStatus.FINISHED) and code != 0 and spoken)
    return End(number, fault, code, status, reason, accounted, time.monotonic() - begun)


def _made(number: int, fault: str, folder: Path) -> tuple[int, list[Mapping[str, object]], bool]:
    """Run the program; return its exit code, the lines that were read, and whether they were read to the end."""
    place, _, kind = fault.partition(":")
    outside = kind if place in {"outside", "real"} else ""
    planted = ["--language", "planted", "--proposer", "planted"]
    arguments = [
        "optimize", str(folder / "double.py"), *(["--baseline", "eager"] if place == "real" else planted),
        "--evaluations", "5", "--minutes", "1", "--device", "cpu", "--json",
    ]  # fmt: skip
    program = ["kernelwright"] if place == "real" else ["benchmarks.soaked_run", "none" if outside else fault]
    command = [sys.executable, "-m", *program, *arguments]
    env = {
        **os.environ,
        "KERNELWRIGHT_STORE": str(folder / "store"),
        "KERNELWRIGHT_CACHE": str(folder / "cache"),
    }
    full = outside == "full-output"
    with Path("/dev/full").open("wb") as nowhere, (folder / "stderr.txt").open("wb") as said:  # fmt: skip
        process = subprocess.Popen(
            command, stdout=nowhere if full else subprocess.PIPE, stderr=said, env=env, preexec_fn=_LIMITS.get(outside)
        )  # fmt: skip
    try:
        lines = [] if full else _read(process, outside, random.Random(number))
        return process.wait(_MOST_S), lines, not full and outside != "reader-leaves"
    except subprocess.TimeoutExpired:
        return 0, [], True  # a hang: not accounted for
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _read(process: subprocess.Popen[bytes], outside: str, dice: random.Random) -> list[Mapping[str, object]]:
    """Read the lines of a run, and do from outside what is to be done after one of the first."""
    assert process.stdout is not None
    lines: list[Mapping[str, object]] = []
    when = dice.randrange(1, 8)  # of some fifteen lines
    for line in process.stdout:
        lines.append(json.loads(line))
        if len(lines) != when:
            continue
        if outside == "reader-leaves":
            process.stdout.close()
            break
        if outside == "workers-killed":
            for child in descendants(process.pid):
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
        if outside in {"killed", "terminated"}:
            process.send_signal(signal.SIGKILL if outside == "killed" else signal.SIGTERM)
    return lines


def _told(store: Path, lines: Sequence[Mapping[str, object]]) -> tuple[str, str]:
    """Return how the run stands and why, by the store; by its last line where there was no run."""
    last = str((lines[-1] if lines else {}).get("message", ""))
    if not (store / "kernelwright.db").exists():
        return "no run", last
    with Store(store) as kept:
        found = kept.runs()
        if not found:
            return "no run", last
        status, reason = kept.ending(found[0])
    return str(status), reason


def _limit(which: int, amount: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(which, (amount, resource.getrlimit(which)[1]))


_LIMITS = {
    "file-size": _limit(resource.RLIMIT_FSIZE, _FILE_BYTES),
    "processor-time": _limit(resource.RLIMIT_CPU, 3),
}


def table(ends: Sequence[End]) -> str:
    """Write the ends as a table: fault, status, exit code, how often, and why."""
    rows = Counter((e.fault, e.status, e.exit_code, e.reason[:90], e.accounted) for e in ends)
    lines = ["| fault | ended | exit code | runs | reason |", "|---|---|---|---|---|"]
    for (fault, status, code, reason, accounted), n in sorted(rows.items()):
        lines.append(
            f"| {fault} | {status} | {code} | {n} | {reason or '-'}{'' if accounted else ' **UNACCOUNTED**'} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Make the runs that are not there yet and write the table."""
    parser = argparse.ArgumentParser(description="Many short runs with faults: does every one end in words?")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Settings.from_environment().cache / "soak")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "ends.jsonl"
    ends = [End(**json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []
    known = {(e.number, e.fault) for e in ends}
    for number, fault in enumerate(faults(args.runs)):
        if (number, fault) in known:
            continue
        end = soak(number, fault, args.out / f"{number:03}")
        ends.append(end)
        with log.open("a") as file:
            file.write(json.dumps(asdict(end)) + "\n")
        if args.json:
            print(json.dumps({"event": "end", **asdict(end)}), flush=True)
        else:
            words = (
                f"{number + 1}/{args.runs} {fault}: {end.status}, exit {end.exit_code}, {end.wall_s:.1f} s"
            )
            print(words if end.accounted else f"{words}: UNACCOUNTED", file=sys.stderr, flush=True)
    silent = [e for e in ends if not e.accounted]
    if args.json:
        print(json.dumps({"event": "result", "runs": len(ends), "without_reason": len(silent)}))
    else:
        print(f"{table(ends)}\n\n{len(ends)} runs, {len(silent)} without a reason")
    return 1 if silent else 0


if __name__ == "__main__":
    raise SystemExit(main())
