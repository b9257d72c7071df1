"""A model's run that is killed at random moments: what was finished stays, and the answer is the same in the end.

Searches and the judge are planted; the store, what is noted in it and what is taken over are real.
"""

import json
import os
import random
import signal
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from tests.models.conftest import unhurried, written
from tests.models.planted import planted_evaluation
from tests.models.world import KERNEL, World, tasks_of

from kernelwright.devices import detect
from kernelwright.models import _budget, _optimize, _searching, _whole, _whole_judge, model_result
from kernelwright.models import _look as looking
from kernelwright.models import _plan as planning
from kernelwright.models._look import gain_of
from kernelwright.models._records import Identity
from kernelwright.records import Candidate, RunStatus, SourceFile
from kernelwright.store import EvaluationKey, Store

OURS = ("/kernelwright/models/", "/kernelwright/store/")
"""Code whose calls are the moments at which a process may die."""


class Noting(World):
    """A world that notes which searches are begun, and whose searches keep evaluations."""

    def search(self, task, *, budget, **options):
        with (self.folder / "begun").open("a") as file:
            file.write(f"{task.key}\n")
        with Store(self.store) as store:
            run = store.create_run(task, device=detect("cpu").fingerprint, budget=budget, seed=0)
            for number in range(3):
                source = SourceFile(path="k.py", text=f"{KERNEL}# {number}\n")
                candidate = Candidate(sources=(source,), language="torch", entry="k.py:run")
                key = EvaluationKey(candidate.key, task.key, "cpu", "t", "h")
                store.save_evaluation(run.id, key, planted_evaluation(candidate, task), elapsed_s=1.0)
            store.finish_run(run.id, RunStatus.FINISHED, {})
        return SimpleNamespace(run=run.id)

    def kept(self):
        """Return the tasks of finished searches, and all evaluations that are kept."""
        with Store(self.store) as store:
            runs = store.runs()
            evaluations = {(run.id, e.candidate.key) for run in runs for e in store.evaluations(run.id)}
        return {run.task for run in runs if run.status is RunStatus.FINISHED}, evaluations

    def finished(self):
        """Return the task of every finished search, as often as it was."""
        with Store(self.store) as store:
            return sorted(run.task for run in store.runs() if run.status is RunStatus.FINISHED)

    def begun(self):
        """Return the task of every search that was begun, in order."""
        path = self.folder / "begun"
        return path.read_text().split() if path.exists() else []


BRANCHING = """
import torch

class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Softmax(-1), torch.nn.LogSoftmax(-1)

    def forward(self, x):
        x = self.first(x.sin() * 3 + x * x)
        if x.sum() > 0:
            x = x.cos() + x.exp()
        return self.second(x)

def build():
    return Branching().eval(), (torch.ones(64, 256),)
"""


@pytest.fixture(scope="module")
def pieces_plan(tmp_path_factory):
    """The plan of a model whose graph breaks, with a region in each piece."""
    path = written(tmp_path_factory.mktemp("pieces"), "branching.py", BRANCHING)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(looking, "LEAST_SHARE", 0.0)
        unhurried(patched)
        patched.setattr(looking, "gain_of", lambda time_us, _: gain_of(time_us, 0.0))
        made = planning.planned(path, device=detect("cpu"))
    assert made.captured.whole is None and len({row.piece for row in made.plan.regions}) > 1
    return made


@pytest.fixture(params=["whole", "in pieces"])
def worlds(tmp_path, monkeypatch, request):
    """Make worlds in which one region helps, and another helps alone and hurts inside."""
    plan = request.getfixturevalue("small_plan" if request.param == "whole" else "pieces_plan")
    names = tasks_of(plan)
    good, bad = ("norms.0", "layers.0") if request.param == "whole" else ("first", "second")

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        world = Noting(folder)
        world.found = {names[good]: 2.0, names[bad]: 1.5}
        world.effects = {good: 0.4, bad: -0.2}
        for module, member, value in (
            (_optimize, "planned", lambda *_, **__: plan), (_whole_judge, "judging", world.judging),
            (_searching, "accepted_of", world.accepted_of), (_whole, "accepted_of", world.accepted_of),
            (_optimize, "over_eager", lambda *_: 1.5), (_searching, "LEAST_SHARE", 0.0), (_budget, "MISSED", 0.0),
            (_optimize, "dynamo_form", lambda *_: None), (_optimize, "identity_of", lambda *_: Identity()),
        ):  # fmt: skip
            monkeypatch.setattr(module, member, value)
        return world

    return make


def attempt(world, moment=0):
    """Optimise in a process of its own, which dies at that call of our code; return what it found, if it ended."""
    child = os.fork()
    if child == 0:
        try:
            _optimised(world, moment)
        finally:
            os._exit(1)
    end = time.monotonic() + 300
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.005)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("an attempt hangs")
    code = os.waitstatus_to_exitcode(ended[1])
    assert code in (0, -signal.SIGKILL), "an attempt failed by itself"
    return json.loads((world.folder / "answer").read_text()) if code == 0 else None


def _optimised(world, moment):
    torch.set_num_threads(1)
    count = 0

    def tick(frame, *_):
        nonlocal count
        if any(part in frame.f_code.co_filename for part in OURS):
            count += 1
            if count == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(tick)
    world.optimize("model.py", proposers=("library", "schedule"))
    sys.setprofile(None)
    result = model_result("last", world.store)
    regions = sorted((r.label, r.kept, r.speedup, r.reason) for r in result.regions)
    answer = {
        "decision": result.decision,
        "speedup": result.speedup.median,
        "regions": regions,
        "calls": count,
    }
    (world.folder / "answer").write_text(json.dumps(answer))
    os._exit(0)


@pytest.mark.parametrize(("kills", "seed"), [(2, 7), pytest.param(50, 8, marks=pytest.mark.long)])
def test_nothing_finished_is_lost_and_the_answer_is_the_same(worlds, kills, seed):
    undisturbed = worlds("undisturbed")
    wanted, once = attempt(undisturbed), undisturbed.finished()
    calls, chance, killed = wanted.pop("calls"), random.Random(seed), 0
    assert wanted["decision"] == "improved" and calls > 100
    while killed < kills:
        world, answer, before = worlds(f"world{killed}"), None, (set(), set())
        while answer is None:
            begun = len(world.begun())
            answer = attempt(world, chance.randrange(1, calls) if killed < kills else 0)
            killed += answer is None
            after = world.kept()
            assert before[0] <= after[0] and before[1] <= after[1], "nothing that was finished is lost"
            assert not before[0] & set(world.begun()[begun:]), "a finished search is taken over"
            before = after
            print(f"{killed} of {kills} kills with seed {seed}: nothing lost")
        assert world.finished() == once, "no search is finished twice"
        answer.pop("calls")
        assert answer == wanted
