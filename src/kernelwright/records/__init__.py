"""The vocabulary as frozen records: task, candidate, verdict, timing, decision, run.Imports no package of ours."""

from ._record import SCHEMA_VERSION, Record, Scalar, content_key
from .bound import Bound, BoundTerm
from .candidate import Build, BuildStatus, Candidate
from .counters import Counters
from .decision import WRONG_BOUND, Decision, DecisionStatus, Interval, StartUp, WorkloadDecision
from .modelled import ModelledTime
from .packing import PackedWeight, Packing
from .run import Budget, Evaluation, Run, RunStatus
from .sizes import ServedSizes, SizeOf, SizeOutcome, SizeProbe, SymbolRange
from .space import Configuration, Parameter, Space
from .task import (
    ALLOWED,
    NUMERICS,
    Contract,
    Distribution,
    Numerics,
    Reference,
    ScalarSpec,
    SourceFile,
    Split,
    Task,
    TensorSpec,
    Workload,
)  # fmt: skip
from .timing import Block, Conditions, Timing, Variant
from .verdict import CheckStatus, Finding, Verdict, VerdictStatus

__all__ = [
    "ALLOWED",
    "NUMERICS",
    "SCHEMA_VERSION",
    "WRONG_BOUND",
    "Block",
    "Bound",
    "BoundTerm",
    "Budget",
    "Build",
    "BuildStatus",
    "Candidate",
    "CheckStatus",
    "Conditions",
    "Configuration",
    "Contract",
    "Counters",
    "Decision",
    "DecisionStatus",
    "Distribution",
    "Evaluation",
    "Finding",
    "Interval",
    "ModelledTime",
    "Numerics",
    "PackedWeight",
    "Packing",
    "Parameter",
    "Record",
    "Reference",
    "Run",
    "RunStatus",
    "Scalar",
    "ScalarSpec",
    "ServedSizes",
    "SizeOf",
    "SizeOutcome",
    "SizeProbe",
    "SourceFile",
    "Space",
    "Split",
    "StartUp",
    "SymbolRange",
    "Task",
    "TensorSpec",
    "Timing",
    "Variant",
    "Verdict",
    "VerdictStatus",
    "Workload",
    "WorkloadDecision",
    "content_key",
]  # fmt: skip
