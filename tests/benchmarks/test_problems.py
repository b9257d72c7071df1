"""Every own problem loads, shrinks, refuses wrong answers and captures."""

from pathlib import Path

import pytest
from benchmarks.problems import problems

from kernelwright.records import Split
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import trace
from kernelwright.verify import admit

ELEMENTS = 150_000
FILES = list(problems())


def test_there_are_enough_of_each_level() -> None:
    counts = {level: sum(its == level for its, _ in FILES) for level in (1, 2, 3)}
    assert counts[1] >= 30 and counts[2] >= 22 and counts[3] >= 10
    assert sum(counts.values()) >= 60


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=pytest.mark.long if i % 24 else ())
        for i, (_, path) in enumerate(FILES)
    ],
)
def test_it_loads_is_admitted_and_captures(path: Path) -> None:
    task = load_task(path, max_elements=ELEMENTS)
    problem = Problem(task)
    admission = admit(problem)
    assert not admission.degenerate, f"let through: {admission.passing}"
    graph = trace(problem, task.split(Split.SEARCH)[0])
    assert graph.how == "trace"
    assert graph.ops and graph.outputs


def test_problems_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    for name in ("10_b.py", "9_a.py"):
        (tmp_path / "level1" / name).write_text("")
    assert [(level, path.name) for level, path in problems(tmp_path)] == [(1, "9_a.py"), (1, "10_b.py")]
    with pytest.raises(FileNotFoundError, match="level2"):
        list(problems(tmp_path, level=2))
