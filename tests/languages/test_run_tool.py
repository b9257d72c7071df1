import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.languages import _process
from kernelwright.languages._process import OUTPUT_LIMIT, run_tool

LEAVE_A_CHILD = """
import pathlib, subprocess
p = subprocess.Popen(["sleep", "60"])
pathlib.Path({mark!r}).write_text(str(p.pid))
"""


def test_output_and_exit_code_are_kept():
    done = run_tool([sys.executable, "-c", "print('said'); raise SystemExit(3)"], deadline_s=30)
    assert (done.returncode, done.output, done.timed_out) == (3, "said\n", False)


def test_a_hanging_tool_is_killed_with_its_children(tmp_path):
    mark = tmp_path / "pid"
    done = run_tool(["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"], deadline_s=1.0)
    assert done.timed_out
    assert not _lives(int(mark.read_text()))


def test_seconds_without_a_processor_do_not_count_against_the_deadline(monkeypatch):
    waits = iter([0.25, 0.5])
    monkeypatch.setattr(_process, "_waited_s", lambda _: next(waits, 0.5))
    done = run_tool(["sleep", "0.6"], deadline_s=0.25)
    assert not done.timed_out
    monkeypatch.setattr(_process, "_waited_s", lambda _: 1e9)
    endless = run_tool(["sleep", "60"], deadline_s=0.1)
    assert endless.timed_out and endless.time_s < 5


@pytest.mark.needs("waiting times")
def test_a_tool_that_shares_its_processor_is_seen_to_wait():
    core = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) as other:
        with subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) as tool:
            time.sleep(0.6)
            waited_s = _process._waited_s(tool.pid)
            tool.kill()
        other.kill()
    assert 0.02 < waited_s < 60


def test_children_left_behind_by_a_finished_tool_are_killed(tmp_path):
    mark = tmp_path / "pid"
    done = run_tool([sys.executable, "-c", LEAVE_A_CHILD.format(mark=str(mark))], deadline_s=30)
    assert not done.timed_out
    assert not _lives(int(mark.read_text()))


def test_endless_output_is_cut_and_does_not_block():
    done = run_tool([sys.executable, "-c", "print('x' * 5_000_000)"], deadline_s=30)
    assert done.returncode == 0
    assert len(done.output) == OUTPUT_LIMIT


def test_a_tool_that_eats_memory_fails_alone():
    done = run_tool([sys.executable, "-c", "bytearray(1 << 40)"], deadline_s=30)
    assert done.returncode != 0
    assert "MemoryError" in done.output


def _lives(pid: int) -> bool:
    for _ in range(1500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return False
        if state == "Z":
            return False
        time.sleep(0.02)
    os.kill(pid, 9)
    return True


def test_a_compiler_is_given_no_key(monkeypatch):
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "sk-planted")
    monkeypatch.setenv("PLAIN", "kept")
    output = run_tool(["env"], deadline_s=20, env={"MORE": "1"}).output
    assert "sk-planted" not in output and "PLAIN=kept" in output and "MORE=1" in output


@pytest.mark.needs("Landlock")
def test_a_closed_tool_has_its_folder_and_the_system_only(tmp_path):
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.write_text("of the judge")
    tries = {
        f"cat {other}": False,
        f"echo x > {tmp_path}/new": False,
        f"cat /proc/{os.getpid()}/environ": False,
        "cat /proc/self/environ": False,
        "echo x > new && cat new && ls /usr/bin": True,
        "echo x > $TMPDIR/temporary": True,
    }
    found = {
        line: run_tool(["sh", "-c", line], deadline_s=30, folder=home, closed=True).returncode == 0
        for line in tries
    }
    assert found == tries
    assert run_tool(["cat", other], deadline_s=30).output == "of the judge", (
        "the judge itself is not closed in"
    )
