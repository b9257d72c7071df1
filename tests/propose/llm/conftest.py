import pytest

from kernelwright.devices import detect
from kernelwright.propose import Request
from kernelwright.records import (
    Bound,
    BoundTerm,
    Budget,
    Build,
    Candidate,
    CheckStatus,
    Decision,
    Evaluation,
    Finding,
    Interval,
    SourceFile,
    Verdict,
    WorkloadDecision,
)  # fmt: skip
from kernelwright.store import Calls, Store
from kernelwright.tasks import Problem, load_task

TASK = """
import torch
import kernelwright as kw

SCALE = 2.0
SECRET_SIZES = [{"rows": 7919, "columns": 13}]


def helper(x):
    return x * SCALE


@kw.task(
    x="float32[rows, columns]",
    workloads=[{"rows": 4, "columns": 16}],
    hidden=SECRET_SIZES,
    contract=kw.Contract(error_factor=4.75),
)
def scaled(x):
    # the entry
    return torch.relu(helper(x))


def unrelated():
    return "not shown"
"""

KERNEL = """#include "kernelwright.h"

KW_KERNEL(scaled) {
  auto x = args.tensor<const float>(0);
  auto out = args.tensor<float>(1);
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] > 0 ? 2 * x[i] : 0;
}
"""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture(scope="session")
def problem(tmp_path_factory):
    file = tmp_path_factory.mktemp("task") / "scaled.py"
    file.write_text(TASK)
    return Problem(load_task(file))


@pytest.fixture
def request_of(problem, tmp_path):
    """Make a request of a run in a store, with the models that are named."""

    def make(*models, usd=None, languages=("cpp",), **more):
        options = {"models": models, **more.pop("options", {})}
        workload = problem.task.workloads[0].name
        term = BoundTerm(name="dram", amount=512, unit="bytes", peak=1e9, source="planted")
        bound = Bound(workload=workload, device="cpu", terms=(term,))
        with Store(tmp_path) as store:
            run = store.create_run(
                problem.task, device="cpu", budget=Budget(usd=usd), seed=0, options=options
            )
        return Request(
            problem, detect("cpu"), (bound,), languages, options=options, store=tmp_path, run=run.id, **more
        )

    return make


@pytest.fixture
def spent(tmp_path):
    def of(request):
        with Calls(tmp_path) as calls:
            return calls.spent_usd(request.run)

    return of


def candidate(text=KERNEL, **more):
    file = SourceFile(path="kernel.cpp", text=text)
    return Candidate(
        sources=(file,),
        language="cpp",
        entry="kernel.cpp:scaled",
        style="destination",
        proposer="llm",
        **more,
    )


def evaluation(text=KERNEL, *, status="slower", speedup=0.8, build=None, findings=(), workloads=(), **more):
    one = candidate(text, **more)
    if not findings and speedup is not None:
        findings = (Finding(check="correct", status=CheckStatus.PASS),)
    failure = next((f.check for f in findings if f.status is CheckStatus.FAIL), "")
    return Evaluation(
        candidate=one,
        build=build or Build(status="ok", evidence={"spills": 3}),
        verdict=Verdict(candidate=one.key, findings=findings, failure=failure, seeds=(424242424242,)),
        decision=Decision(
            candidate=one.key, status=status, reason="planted", baseline="eager", workloads=workloads,
            speedup=None if speedup is None else Interval(median=speedup, low=speedup - 0.05, high=speedup + 0.05),
            time_us=1.024,
        ),
    )  # fmt: skip


def timed(workload, time_us=1.024):
    return WorkloadDecision(
        workload=workload, speedup=Interval(median=0.8, low=0.75, high=0.85), time_us=time_us,
        baseline_us=0.8, baseline="compile",
    )  # fmt: skip
