"""Baselines as variants: torch.compile in a worker of ours."""

import pytest

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.measure import Bench
from kernelwright.records import Candidate, SourceFile, Split
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task

from .layer import LAYER, LINEAR


@pytest.mark.long
def test_a_compiled_module_is_given_the_parameters_too(tmp_path, shared_cache):
    (tmp_path / "layer.py").write_text(LAYER)
    problem = Problem(load_task(str(tmp_path / "layer.py")))
    settings = Settings.from_environment({"KERNELWRIGHT_CACHE": str(shared_cache)})
    candidate = Candidate(
        sources=(SourceFile(path="c.py", text=f"import torch\n{LINEAR}"),), language="torch", entry="c.py:run"
    )
    build = get_language("torch").build(candidate)
    with (
        Pool(settings, arena_bytes=8 << 20) as pool,
        Bench(problem, pool, detect("cpu"), baselines=("compile",)) as bench,
    ):
        workloads = problem.task.split(Split.SEARCH)
        timing, findings = bench.measure(
            candidate, build, phase="screen", workloads=workloads, deadline_s=300
        )
    assert {f.check: f.status for f in findings}["timed-outputs"] == "pass"
    assert timing.blocks and all("compile" in block.times_us for block in timing.blocks)
