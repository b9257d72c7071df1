"""How a task is taken from its target: which sizes stay, and which kernel is there already."""

import kernelwright.tasks
from kernelwright.cli import main

FLAGS = ("--fixed", "rows", "--fixed", "dim", "--kernel", "mine.cpp")


def test_sizes_that_stay_and_the_kernel_to_start_from_reach_the_task(monkeypatch):
    given = {}

    def load(target, **asked):
        given.update(asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(kernelwright.tasks, "load_task", load)
    assert main(["bound", "task.py", *FLAGS]) == 130
    assert given["fixed"] == ("rows", "dim") and given["kernel"] == "mine.cpp"


def test_a_run_remembers_them(asked, tmp_path):
    assert main(["optimize", "task.py", *FLAGS, "--store", str(tmp_path)]) == 130
    assert asked["more"] == {"fixed": ("rows", "dim"), "kernel": "mine.cpp"}
