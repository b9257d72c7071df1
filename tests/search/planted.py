"""What a scripted model writes, and its worth: a kernel is as fast as its source says."""

import re

from kernelwright.records import (
    Build,
    Candidate,
    CheckStatus,
    Decision,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    SourceFile,
    Verdict,
)  # fmt: skip

TASK = """
import kernelwright as kw

@kw.task(x="float32[n]", workloads=[{"n": 64}])
def double(x):
    return x + x
"""


def source(speed: float, more: str = "") -> str:
    """Say the speed in the code, for kernels that differ in comments alone are the same, and in words for prompts."""
    return f'#include "kernelwright.h"\n{more}KW_KERNEL(double_it) {{ double value = {speed}; /* speed {speed} */ }}\n'


def code(speed: float, more: str = "") -> str:
    return f"IDEA: at {speed}\n```cpp\n{source(speed, more)}```"


def speed_of(text: str) -> float:
    return float(re.search(r"speed (-?[\d.]+)", text).group(1))


def evaluate(candidate: Candidate) -> Evaluation:
    """A candidate is as fast as it says; below nothing it is wrong."""
    speed = speed_of(candidate.sources[0].text)
    right = speed > 0
    status = CheckStatus.PASS if right else CheckStatus.FAIL
    verdict = Verdict(
        candidate=candidate.key, failure="" if right else "correct",
        findings=(Finding(check="correct", status=status),),
    )  # fmt: skip
    decision = Decision(
        candidate=candidate.key, reason="planted", baseline="eager", time_us=100 / max(speed, 0.01), bound_us=1.0,
        status=DecisionStatus.IMPROVED if right else DecisionStatus.REJECTED,
        speedup=Interval(median=speed, low=speed * 0.99, high=speed * 1.01) if right else None,
    )  # fmt: skip
    return Evaluation(candidate=candidate, build=Build(status="ok"), verdict=verdict, decision=decision)


START = Candidate(
    sources=(SourceFile(path="start.cpp", text=source(1.0)),), language="cpp", entry="start.cpp:double_it",
    style="destination",
)  # fmt: skip
