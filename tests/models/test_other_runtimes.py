"""A whole model as OpenVINO and ONNX Runtime answer it: what it is compared with where they are asked for."""

from pathlib import Path

import pytest
import torch
from tests.models.conftest import SMALL, written

from kernelwright.languages import get_language
from kernelwright.languages._runtimes import RUNTIMES
from kernelwright.models import Captured, load_model
from kernelwright.models._whole_task import whole_task
from kernelwright.tasks import Problem


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # what the runtimes and torch's exporter warn of themselves
@pytest.mark.parametrize("runtime", [pytest.param(name, marks=pytest.mark.needs(name)) for name in RUNTIMES])
def test_a_model_answers_with_its_weights(runtime, tmp_path):
    task = whole_task(load_model(written(tmp_path, "small.py", SMALL)), Captured(()), {}).task
    problem, workload = Problem(task), task.workloads[0]
    candidate, language = problem.baseline(runtime, workload), get_language("torch")
    made = language.load(candidate, Path(language.build(candidate).artefact), workload.outputs)()
    inputs, state = problem.inputs(workload, seed=1), problem.state(workload, seed=1)
    made.load_state_dict(dict(zip((s.name for s in workload.state), state.values(), strict=True)))
    with torch.no_grad():
        wanted = problem.reference(workload, state)(*inputs)
        for got in (made(*inputs), made(*inputs)):
            torch.testing.assert_close(tuple(got), tuple(wanted), rtol=1e-4, atol=1e-5)
    assert runtime in str(vars(made)["forward"]._make), "torch did not answer"
