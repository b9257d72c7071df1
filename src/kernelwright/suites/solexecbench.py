"""SOL-ExecBench: folders with a definition, workloads with tolerances of their own, and solutions, a JSON record each.

Source: NVIDIA/SOL-ExecBench, README.md and src/sol_execbench/core; Zhu et al., arXiv 2603.19173.
"""

import json
from pathlib import Path
from typing import Any

from ..records import Task
from ._modules import LIMIT_S
from ._protocol import Script
from ._records import Rules, SuiteProblem
from .flashinferbench import FlashInferBench, lines_of, size_of

_DEFINITION, _WORKLOADS = "definition.json", "workload.jsonl"
_TOLERANCE = {"max_atol": 1e-2, "max_rtol": 1e-2, "required_matched_ratio": 0.99, "max_error_cap": None}
"""Of workloads that name none."""


class SOLExecBench(FlashInferBench):
    """The adapter of SOL-ExecBench's samples, and of folders in its layout."""

    name = "sol-execbench"
    title = "SOL-ExecBench: operators of served models, against the least time that a device needs"
    repository = "NVIDIA/SOL-ExecBench"
    commit = "8d2237d2012cba81f64905b273b592653623abf9"
    layout = ("examples", "src/sol_execbench")
    rules = Rules(
        correctness="on 10 draws after one public seed 99 % of all elements within a workload's tolerances, or as it "
        "says; finite, and not all zero where the reference is not; shape and dtype",
        timing="median of 50 calls after 10 by CUPTI, cold cache, new addresses",
        score="1 / (1 + (time - bound) / (baseline - bound)): 0.5 at the baseline, 1 at the bound",
        trials=10, tolerance=1e-2, timed=50, seed=200,
        here="the host's clock takes the place of CUPTI; at most 4 workloads, from the smallest to the largest, are "
        "loaded, and its rules run on the first; of its draws by name those of norms and weight matrices are made",
    )  # fmt: skip

    def problems(self, data: Path) -> tuple[SuiteProblem, ...]:
        """List the definitions with workloads next to them; of several of one name, the first."""
        found: dict[str, SuiteProblem] = {}
        for file in sorted(data.rglob(_DEFINITION)):
            if file.with_name(_WORKLOADS).is_file():
                definition, path = json.loads(file.read_text()), file.relative_to(data).as_posix()
                name, group = str(definition["name"]), str(definition.get("op_type") or "unknown")
                found.setdefault(name, SuiteProblem(suite=self.name, name=name, group=group, file=path))
        return tuple(found.values())

    def workloads(self, data: Path, problem: SuiteProblem) -> list[dict[str, Any]]:
        """Return the workloads next to a definition, from the smallest to the largest."""
        return sorted(lines_of((data / problem.file).with_name(_WORKLOADS)), key=size_of)

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return its evaluation of the first workload; None if the kernel can only run on a GPU."""
        given = self.given(task, candidate, problem)
        if given is None:
            return None
        first = self.workloads(data, problem)[0]
        tolerance = _TOLERANCE | (first.get("tolerance") or {})
        return Script("sol_execbench", given | {"tolerance": tolerance, "seed": self.rules.seed}, LIMIT_S)
