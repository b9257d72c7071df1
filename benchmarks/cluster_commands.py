"""The commands that take `--cluster`, end to end on a Ray cluster of nodes on this machine, and where their time goes.

    python -m benchmarks.cluster_commands [--command optimize] [--nodes 3] [--minutes 2] [--evaluations 4] [--out FILE]

`optimize` searches a kernel for `examples/swiglu.py`, `suite run` one for each problem of a made-up checkout of
KernelBench. A row says how many seconds after the command began its first event of each kind came, what was evaluated,
and what was concluded; with `--nodes 0` the commands work without a cluster. The exit code is 1 if a command fails or a
search evaluated nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kernelwright.store import Store
from kernelwright.testing import made_up_checkout

from .cluster import machines

COMMANDS = {
    "optimize": ("optimize", "examples/swiglu.py", "--max-elements", "1e5"),
    "suite run": ("suite", "run", "kernelbench", "--data", "{folder}/data", "--to", "{folder}/rows.jsonl",
                  "--max-elements", "2e4", "--device", "cpu"),
}  # fmt: skip


def ran(words: Sequence[str]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Run a command and yield each event that it prints with the second at which it came, the exit code last."""
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "kernelwright", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield time.monotonic() - begun_s, json.loads(line)
    yield time.monotonic() - begun_s, {"event": "end", "exit": process.returncode}


def row_of(folder: Path, words: Sequence[str]) -> dict[str, Any]:
    """Run a command and summarise it."""
    first, found = dict[str, float](), dict[str, Any]()
    concluded: list[str] = []
    for second, event in ran([*words, "--store", str(folder / "store")]):
        kind = event["event"] if event["event"] != "cluster" else event["kind"]
        first.setdefault(kind, round(second, 1))
        if kind == "row":
            concluded.append(f"{event['problem']}: {event['ours']['decision'] or event['ours']['reason']}")
        elif kind == "end":
            found["exit"] = event["exit"]
        elif kind == "result":
            concluded.append(": ".join(filter(None, (event.get("decision"), event.get("reason")))))
    with Store(folder / "store") as store:
        each = [len(store.evaluations(run.id)) for run in store.runs()]
    return {"first_s": first, "evaluations": each, "concluded": [c for c in concluded if c], **found}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--command", action="append", choices=tuple(COMMANDS))
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--evaluations", type=int, default=4)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    failed = False
    with (
        tempfile.TemporaryDirectory() as scratch,
        machines(asked.nodes) if asked.nodes else nullcontext() as nodes,
    ):
        for name in asked.command or COMMANDS:
            folder = Path(scratch) / name.replace(" ", "-")
            made_up_checkout("kernelbench", folder / "data")
            words = [word.format(folder=folder) for word in COMMANDS[name]]
            words += ["--minutes", f"{asked.minutes:g}", "--evaluations", str(asked.evaluations)]
            where, load = ("--cluster", nodes.address) if nodes else (), os.getloadavg()[0]
            row = row_of(folder, [*words, *where])
            said = " ".join(("kernelwright", *words)).replace(str(folder), "DIR")
            said += " --cluster ADDRESS" if nodes else ""
            line = json.dumps({
                "what": name, "nodes": asked.nodes, "load": load, **row, "ran": said,
            })  # fmt: skip
            print(line, flush=True)
            if asked.out:
                with asked.out.open("a") as out:
                    out.write(line + "\n")
            failed |= bool(row["exit"]) or not row["evaluations"] or not all(row["evaluations"])
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
