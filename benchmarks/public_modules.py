"""How many public modules become tasks: KernelBench's files, layers and functions of torch, layers of transformers.

    python -m benchmarks.public_modules --kernelbench PATH [--only NAME] [--json] [--out rows.jsonl]

PATH is a checkout of KernelBench, or the folder in it that holds `level1` to `level4`. Each file is first run under
torch alone, then loaded as a task, each in a process of its own with limits of time and memory. What is too large for
this machine is loaded with its sizes shrunk (`scaled`). Level 4 reads configurations and weights from the network:
there the configuration is a small one of the same kind and the weights are random (`rewritten`). A row is written to
`--out` as soon as it is known, and rows that are there already are not made again.
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.records import Split
from kernelwright.suites import offline
from kernelwright.tasks import load_task

from .public_layers import sources

Row = dict[str, Any]
_SECONDS, _GB, _SCALED = 90, 12, 2_000_000
"""Limits of a file; `--gigabytes` sets another."""


def main(argv: Sequence[str] | None = None) -> int:
    """Load every file and print the table; the exit code is 1 where one that runs is no task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kernelbench", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gigabytes", type=int, default=_GB, help="memory that one file may take")
    asked = parser.parse_args(argv)
    known = {row["name"]: row for row in _read(asked.out)}
    rows: list[Row] = []
    _warm()
    for group, name, text in _files(asked.kernelbench):
        if asked.only not in name:
            continue
        row = known.get(name) or {"group": group, "name": name, **judged(text, asked.gigabytes)}
        rows.append(row)
        if name not in known and asked.out:
            with asked.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
        if asked.json:
            print(json.dumps(row), flush=True)
    if not asked.json:
        print(table(rows))
    return int(any(row["runs"] and not row["taken"] for row in rows))


def judged(text: str, gigabytes: int = _GB) -> Row:
    """Load one file as a task: taken or why not, whether its sizes were shrunk, whether torch runs it as it stands."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "op.py")
        file.write_text(text)
        started = time.monotonic()
        row = in_child(lambda: _loaded(file, None), gigabytes)
        scaled = row.get("needs", False)
        if scaled:
            row = in_child(lambda: _loaded(file, _SCALED), gigabytes)
        seconds = round(time.monotonic() - started, 2)
        runs = row["taken"] or in_child(lambda: _run(text), gigabytes)["taken"]
    row = {k: v for k, v in row.items() if k != "needs"}
    return {**row, "runs": runs, "scaled": scaled, "rewritten": "for_model(" in text, "seconds": seconds}


def in_child(work: Callable[[], Row], gigabytes: int = _GB) -> Row:
    """Do the work in a forked process with limits of time and memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
        signal.alarm(_SECONDS)
        try:
            row = work()
        except KernelwrightError as error:
            row = {"taken": False, "why": " ".join(str(error).split()), "needs": "GB" in str(error)}
        except BaseException as error:  # noqa: BLE001  whatever it is, the row says it
            row = {"taken": False, "why": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        with os.fdopen(writer, "w") as out:
            json.dump(row, out)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    if said:
        return dict(json.loads(said))
    return {
        "taken": False,
        "why": f"ended by signal {os.WTERMSIG(status)} (limits: {_SECONDS} s, {gigabytes} GB)",
        "needs": True,
    }


def table(rows: Sequence[Row]) -> str:
    """Count by group, and name what is no task."""
    lines = [
        f"{'group':14} {'files':>5} {'run':>5} {'taken':>5} {'scaled':>6} {'rewritten':>9} {'dropped':>7}"
    ]
    for group in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == group]
        counts = [
            sum(bool(row.get(k)) for row in own) for k in ("runs", "taken", "scaled", "rewritten", "dropped")
        ]
        lines.append("{:14} {:5} {:5} {:5} {:6} {:9} {:7}".format(group, len(own), *counts))
    lines += [
        f"{'no task' if row['runs'] else 'does not run here'}: {row['group']} {row['name']}: {row['why']}"
        for row in rows
        if not row["taken"]
    ]
    return "\n".join(lines)


def _warm() -> None:
    """Load one task here, so that no child imports again what loading imports."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "op.py")
        file.write_text(next(text for _, name, text in sources() if name == "ELU()"))
        load_task(file)


def _loaded(file: Path, most: int | None) -> Row:
    task = load_task(file, max_elements=most, minutes=_SECONDS / 60)
    count = {split.value: len(task.split(split)) for split in Split}
    dropped = [note for note in task.notes if note.startswith("dropped")]
    return {"taken": True, "why": "", "workloads": count, "dropped": dropped[0].split()[1] if dropped else 0}


def _run(text: str) -> Row:
    """Run the file under torch alone, as it stands."""
    names: dict[str, Any] = {"__name__": "plain"}
    exec(compile(text, "plain", "exec"), names)
    with torch.no_grad():
        model = names["Model"](*names.get("get_init_inputs", list)())
        model(*names["get_inputs"]())
    return {"taken": True}


def _files(kernelbench: Path | None) -> Iterator[tuple[str, str, str]]:
    """Yield group, name and text of every file."""
    if kernelbench is not None:
        for file in sorted(kernelbench.rglob("level[1-4]/*.py")):
            text = file.read_text()
            yield f"KernelBench {file.parent.name[-1]}", f"{file.parent.name}/{file.stem}", offline(text)
    yield from sources()


def _read(path: Path | None) -> list[Row]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main())
