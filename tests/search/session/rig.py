"""One planted run: candidates whose time and faults are written in them."""

from kernelwright.records import Budget, Parameter, Space
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.run._budget import Meter
from kernelwright.search.session._result import result_of
from kernelwright.search.session._session import Session
from kernelwright.search.tuners import make_tuner
from kernelwright.testing import (
    PlantedJudge,
    PlantedLanguage,
    PlantedTemplate,
    planted_task,
)

TILES = Space(
    parameters=(
        Parameter(name="tile", values=tuple(range(1, 17))),
        Parameter(name="unroll", values=(1, 2, 4)),
    )
)


def tiles(name="tiles", best=60.0, at=11):
    def cost(c):
        return best + 2 * abs(c["tile"] - at) + 5 * abs(c["unroll"] - 2)

    return PlantedTemplate(name, TILES, cost, {"tile": 1, "unroll": 1})


class Rig:
    """One planted run."""

    def __init__(self, store, proposals, *, run=None, judge=None, clock=None, workloads=None, **budget):
        self.store, self.events = store, []
        self.judge = judge or PlantedJudge()
        self.language = PlantedLanguage()
        limits = Budget(**budget) if budget else Budget(evaluations=20)
        task = planted_task(workloads=workloads)
        self.run = run or store.create_run(task, device="cpu-1", budget=limits, seed=3)
        spent = store.spent(self.run.id)
        self.meter = Meter(self.run.budget, spent, **({"clock": clock} if clock else {}))
        self.languages = {"planted": self.language}
        self.scheduler = Scheduler(iter(proposals), lambda space: make_tuner("local", space, self.run.seed))

    def go(self):
        evaluator = Evaluator(self.run, self.store, self.judge, self.languages, self.meter)
        with Builder(self.languages, width=2) as builder:
            session = Session(self.scheduler, builder, evaluator, self.meter, self.emit)
            self.outcome = session.run()
        return self.outcome

    def emit(self, event, **data):
        self.events.append((event, data))

    @property
    def result(self):
        cut = [data["message"] for event, data in self.events if event == "budget"]
        return result_of(self.run, self.outcome, self.meter, None, cut, cut)
