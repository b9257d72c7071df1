"""A made-up run that exercises every part of the report. Figures here are test data, not results."""

import pytest

from kernelwright.records import (
    Block,
    Bound,
    BoundTerm,
    Budget,
    Build,
    BuildStatus,
    Candidate,
    CheckStatus,
    Decision,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    Reference,
    Run,
    RunStatus,
    SourceFile,
    Task,
    Timing,
    Variant,
    Verdict,
    Workload,
    WorkloadDecision,
)
from kernelwright.report import ReportData

WORKLOADS = ("rows=4096,dim=1024", "rows=512,dim=8192")
HOSTILE = "// </pre><script>alert(1)</script>\nvoid kernel() {}\n"


def candidate(tile: int, text: str, parents: tuple[str, ...] = ()) -> Candidate:
    return Candidate(
        sources=(SourceFile(path="kernel.cpp", text=text),),
        language="cpp",
        entry="kernel.cpp:softmax",
        style="destination",
        parameters={"tile": tile},
        template="softmax",
        parents=parents,
        proposer="library",
    )


def evaluation(
    made: Candidate, status: DecisionStatus, time_us: float, failure: str = "", stage: str = "screen"
) -> Evaluation:
    rejected = status is DecisionStatus.REJECTED
    finding = Finding(check=failure or "correct", status=CheckStatus.FAIL if rejected else CheckStatus.PASS)
    speedups = [
        Interval(median=1800 / time_us * f, low=1750 / time_us * f, high=1860 / time_us * f) for f in (1, 1.2)
    ]
    timed = not rejected
    blocks = tuple(
        Block(
            workload=w,
            order=("candidate", "eager", "compile"),
            calls=1,
            times_us={"candidate": time_us + i, "eager": 2400.0 + i, "compile": 1800.0 + i},
        )
        for w in WORKLOADS
        for i in range(3)
    )
    return Evaluation(
        candidate=made,
        build=Build(status=BuildStatus.OK, time_s=0.4),
        verdict=Verdict(candidate=made.key, findings=(finding,), failure=failure),
        timing=Timing(
            variants=(Variant(name="candidate", content=made.key, symbol="softmax", worker=1),),
            blocks=blocks,
            cache="cold",
            device="cpu-test",
        )
        if timed
        else None,
        decision=Decision(
            candidate=made.key,
            status=status,
            reason="the lower limit is above the least effect worth having",
            baseline="compile",
            speedup=speedups[0] if timed else None,
            workloads=tuple(
                WorkloadDecision(
                    workload=w,
                    speedup=s,
                    time_us=time_us,
                    baseline_us=1800.0,
                    baseline="compile",
                    bound_us=700.0,
                )
                for w, s in zip(WORKLOADS, speedups, strict=True)
            )
            if timed
            else (),
            time_us=time_us if timed else 0.0,
            bound_us=700.0 if timed else 0.0,
            blocks=6,
            confirmed=status is DecisionStatus.IMPROVED,
        ),
        stage=stage,
    )


@pytest.fixture
def report_data() -> ReportData:
    first = candidate(8, "void kernel() { /* two passes */ }\n")
    best = candidate(16, HOSTILE, parents=(first.key,))
    evaluations = [
        evaluation(first, DecisionStatus.EQUAL, 1790.0),
        evaluation(candidate(4, "int a;"), DecisionStatus.SLOWER, 2600.0),
        evaluation(candidate(2, "int b;"), DecisionStatus.REJECTED, 1.0, failure="correct"),
        evaluation(candidate(32, "int c;"), DecisionStatus.REJECTED, 1.0, failure="inputs-unchanged"),
        evaluation(candidate(64, "int d;"), DecisionStatus.INCONCLUSIVE, 1200.0),
        evaluation(best, DecisionStatus.IMPROVED, 910.0, stage="full"),
    ]
    task = Task(
        name="softmax",
        form="kernelbench",
        reference=Reference(files=(SourceFile(path="r.py", text=""),), entry="r.py:Model", style="module"),
        workloads=tuple(Workload(name=w) for w in WORKLOADS),
        notes=("dim shrunk from 393216 to 8192",),
    )
    run = Run(
        id="20260101-0001",
        task=task.key,
        task_name=task.name,
        device="cpu-test",
        budget=Budget(minutes=1),
        seed=0,
        status=RunStatus.FINISHED,
    )
    term = BoundTerm(name="dram", amount=33.5e6, unit="bytes", peak=48e9, source="measured: copy of 128 MB")
    return ReportData(
        run=run,
        task=task,
        evaluations=evaluations,
        finished_s=[2.0, 5.5, 6.0, 7.1, 12.0, 31.0],
        bounds=[Bound(workload=w, device="cpu-test", terms=(term,)) for w in WORKLOADS],
        best=best.key,
        environment={"device": "a test", "torch": "2.13"},
        reproduce="kernelwright optimize softmax.py --seed 0 --minutes 1",
    )
