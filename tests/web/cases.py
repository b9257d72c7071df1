"""Tasks as what `check.mjs` and `tune.mjs` read: a program, its values, what is expected."""

import json
from pathlib import Path

import numpy as np

from kernelwright.api.web import OnWeb, on_web
from kernelwright.tasks import load_task

TASKS = Path(__file__).with_name("tasks.py")
JIT = Path(__file__).parents[2] / "src" / "kernelwright" / "web" / "jit"


def made(name: str) -> OnWeb:
    """Return one of the small tasks."""
    return on_web(load_task(f"{TASKS}:{name}"))


def plain(name: str, one: OnWeb) -> dict[str, object]:
    """Return it as JSON; minus infinity, which JSON has not, is null."""
    arguments = {
        s.name: a for s, a in zip(one.workload.arguments, one.case.inputs, strict=True)
    } | one.case.state
    values = [
        None if t.role in ("between", "output")
        else [v if np.isfinite(v) else None for v in t.values] if t.role == "constant"
        else arguments[t.name].flatten().tolist()
        for t in one.program.tensors
    ]  # fmt: skip
    expected = [
        {"truth": t.truth.flatten().tolist(), "allowed": t.allowed.flatten().tolist()}
        for t in one.case.outputs
    ]
    return {"name": name, "program": one.program.plain(), "values": values, "expected": expected}


def write(path: Path, cases: list[dict[str, object]]) -> Path:
    """Write cases for Node."""
    path.write_text(json.dumps(cases))
    return path
