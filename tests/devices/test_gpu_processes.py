"""Other processes on a GPU are those that its driver names and this process did not start."""

import os
import subprocess
import sys

import pytest

from kernelwright.devices import others_on


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Stand in for the driver's tool: what it prints, and how it exits."""

    def says(*pids, code=0):
        tool = tmp_path / "nvidia-smi"
        lines = "".join(f"echo {pid}\n" for pid in pids)
        tool.write_text(f"#!/bin/sh\n{lines}exit {code}\n")
        tool.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return says


def test_processes_that_are_not_of_our_tree_are_counted(driver):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        driver(os.getpid(), child.pid, 1)
        assert others_on("cuda:0") == 1
        child.communicate(b"\n")


def test_a_driver_that_names_none_of_ours_counts_in_other_numbers(driver):
    driver(1)
    assert others_on("cuda:0") == 0


def test_no_driver_and_one_that_fails_say_nothing(driver, monkeypatch, tmp_path):
    driver(os.getpid(), 1, code=9)
    assert others_on("cuda:0") == 0
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert others_on("cuda:0") == 0
