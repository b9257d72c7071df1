"""Models whose searches and judge are planted; everything else of a run is real."""

from contextlib import contextmanager
from types import SimpleNamespace

from kernelwright.devices import detect
from kernelwright.models import _budget, _optimize, _searching, _whole, _whole_judge, optimize_model
from kernelwright.models._pilot import Pilot
from kernelwright.propose.schedule import FIRST
from kernelwright.records import Candidate, DecisionStatus, Interval, RunStatus, SourceFile
from kernelwright.store import Store

PILOT = Pilot(0.5, ("schedule/fused",))
KERNEL = "def run(*values):\n    return values[0]\n"


class World:
    """Plants what a search of each region finds, and how fast the model is with each set of kernels."""

    def __init__(self, folder):
        self.folder, self.store = folder, folder / "store"
        self.found, self.effects, self.searched, self.asked, self.events = {}, {}, [], [], []
        self.final, self.budgets, self.first, self.accepted_s = DecisionStatus.IMPROVED, [], [], 1.0
        self.native_asked, self.held_against, self.beaten_by = 0, [], {}

    def search(self, task, *, budget, **options):
        assert budget.minutes > 0 and options["store"] == self.store
        self.searched.append(task.name)
        self.budgets.append(budget)
        self.first.append(options.get("more", {}).get(FIRST, ()))
        self.held_against.append(tuple(options.get("baselines", ())))
        speedup = self.found.get(task.name, 1.0)
        if isinstance(speedup, Exception):
            raise speedup
        with Store(self.store) as store:
            asked = {name: options[name] for name in ("proposers", "baselines") if name in options}
            run = store.create_run(
                task, device=detect("cpu").fingerprint, budget=budget, seed=0, options=asked
            )
            store.finish_run(run.id, RunStatus.FINISHED, {})
        return SimpleNamespace(run=run.id)

    def accepted_of(self, store, run):
        speedup = self.found.get(run.task_name, 1.0)
        if self.beaten_by.get(run.task_name, "") in run.options.get("baselines", (None,)):
            return ()
        if isinstance(speedup, Exception) or speedup <= 1.0:
            return ()
        candidate = Candidate(
            sources=(SourceFile(path="k.py", text=KERNEL),),
            language="torch",
            entry="k.py:run",
            reason=run.task_name,
        )
        decision = SimpleNamespace(
            speedup=Interval(median=speedup), status=DecisionStatus.IMPROVED, baseline="compile"
        )
        return (SimpleNamespace(candidate=candidate, decision=decision, timing=None, time_s=self.accepted_s),)

    @contextmanager
    def judging(self, task, **options):
        self.task = task

        def ask(candidate, screen):
            names = [n for n in self.effects if n in candidate.reason]
            if candidate.reason == "kernels for nothing":
                self.native_asked += 1
                return SimpleNamespace(run="native", speedup=None)
            self.asked.append((screen, candidate.reason))
            speedup = 1.0 + sum(self.effects[n] for n in names)
            return SimpleNamespace(
                speedup=Interval(median=speedup), baseline="compile", reason="planted", run="r1",
                candidate=candidate.key, decision=DecisionStatus.INCONCLUSIVE if screen else self.final,
            )  # fmt: skip

        yield ask

    def optimize(self, target, proposers=("library",), **options):
        return optimize_model(
            target, device="cpu", store=self.store, search=self.search, on_event=self.events.append,
            proposers=proposers, **options,
        )  # fmt: skip


def planted_world(monkeypatch, folder, plan):
    """Return a world in which all that is planted takes the place of searches and of the judge."""
    world = World(folder)
    for module, member, value in (
        (_optimize, "planned", lambda *_, **__: plan), (_whole_judge, "judging", world.judging),
        (_searching, "accepted_of", world.accepted_of), (_whole, "accepted_of", world.accepted_of),
        (_optimize, "over_eager", lambda *_: 1.5), (_searching, "LEAST_SHARE", 0.0),
        (_whole, "piloted", lambda _, seconds: PILOT if seconds > 60 else None),
        (_budget, "MISSED", 0.0),  # each region is searched once
    ):  # fmt: skip
        monkeypatch.setattr(module, member, value)
    return world


def tasks_of(planned):
    """Return the task's name of each region by its label."""
    return {r.label: f"region_{r.region}" for r in planned.plan.regions}
