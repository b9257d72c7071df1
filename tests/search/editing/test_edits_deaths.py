"""A run with edits killed without warning and taken up again: every reply that came is used, none is paid twice."""

import io
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from kernelwright.store import Journal, Store

RUN = """
import sys
from pathlib import Path

from kernelwright.devices import Device
from kernelwright.propose import Request
from kernelwright.records import Budget
from kernelwright.search.run._budget import Meter
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.editing._edits import EditServices, Edits
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.session._session import Session
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.store import Journal, Store
from kernelwright.testing import PlantedJudge, PlantedLandscape, PlantedLanguage, planted_task

folder = Path(sys.argv[1])


class Paid(PlantedLandscape):
    def edit(self, move, request=None):
        with (folder / "paid").open("a") as ledger:
            ledger.write(f"{move.number}\\n")
        return super().edit(move, request)


class Saying(PlantedJudge):
    def screen(self, candidate, build, **limits):
        print("screening", flush=True)
        if sys.stdin.readline() == "":
            raise SystemExit
        return super().screen(candidate, build, **limits)


CPU = Device(kind="cpu", name="any", cores=1, memory_bytes=1, torch_device="cpu")
with Store(folder) as store:
    runs = store.runs()
    run = runs[0] if runs else store.create_run(
        planted_task(), device="cpu-1", budget=Budget(evaluations=12), seed=4)
    meter, editor = Meter(run.budget, store.spent(run.id)), Paid(3, faults=0.0)
    languages = {"planted": PlantedLanguage()}
    evaluator = Evaluator(run, store, Saying(), languages, meter)
    desk = EditServices([editor], Request(None, CPU, (), ("planted",)), 3,
                lambda under_way: meter.evaluations + under_way < 12, lambda: 600.0, lambda *_, **__: None)
    strategy = make_strategy("evolve", Means(4, editor.operators))
    with (
        Edits(strategy, desk, Journal(folder, run.id), evaluator.evaluations, ()) as edits,
        Builder(languages, width=1) as builder,
    ):
        Session(Scheduler(iter(()), None, edits), builder, evaluator, meter, desk.emit).run()
print("done", flush=True)
"""


def go(folder, evaluations):
    """Run until so many candidates were let through the judge, then kill it; tell whether it had ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    lines = []
    for line in iter(process.stdout.readline, ""):
        lines.append(line.strip())
        if len(lines) > evaluations or lines[-1] == "done":
            break
        process.stdin.write("go\n")
        process.stdin.flush()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return lines[-1] == "done"


def found(folder):
    with Store(folder) as store:
        run = store.run("last").id
        journal = Journal(folder, run)
        replies = [e.number for e in journal.entries() if e.kind == "reply"]
        journal.close()
        return [e.candidate.key for e in store.evaluations(run)], replies


@pytest.mark.slow
def test_killed_it_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    monkeypatch.setattr(sys, "argv", ["run", str(whole)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\n" * 99))
    exec(compile(RUN, "run", "exec"), {"__name__": "run"})
    assert not go(broken, 5) and go(broken, 99)
    keys, replies = found(broken)
    assert keys == found(whole)[0] and len(keys) == 12
    assert len(replies) == len(set(replies)), "no reply twice"
    paid = Counter((broken / "paid").read_text().split())
    again = sum(count - 1 for count in paid.values())
    assert again <= 3, "only what was under way at the kill, with no reply on disk, is asked for again"
    assert {int(number) for number in paid} == set(replies)
