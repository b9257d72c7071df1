"""Admission within a deadline."""

import pytest

from kernelwright.tasks import Problem, load_task
from kernelwright.verify import admit

TASK = """
import kernelwright as kw

@kw.task(x="float32[rows, columns]", workloads=[{"rows": 4, "columns": 16}])
def double(x):
    return x * 2
"""


def test_admission_ends_by_its_deadline(tmp_path):
    (tmp_path / "double.py").write_text(TASK)
    problem = Problem(load_task(tmp_path / "double.py"))
    with pytest.raises(TimeoutError, match="deadline"):
        admit(problem, deadline_s=0.0)
    assert admit(problem).caught
