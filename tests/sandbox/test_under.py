"""A tool in front of the zygote: inside the walls, heard when it ends, and gone when it does not."""

import sys
import time
from pathlib import Path

import pytest

from kernelwright.errors import WorkerError
from kernelwright.sandbox import Pool
from kernelwright.sandbox._process import Zygote

from .conftest import KINDS, payload

START = "import subprocess, sys, time; subprocess.run(sys.argv[2:], close_fds=False, check=True); "
NOTHING = "def run(x):\n    return x\n"


def under(pools, script, mark="tool", **limits):
    """A pool like the fixture's, whose zygote a script starts."""
    line = [sys.executable, "-c", script, mark]
    return Pool(
        pools(KINDS[0])._zygotes._settings, arena_bytes=1 << 20, memory_bytes=1 << 30, under=line, **limits
    )


def alive(mark):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [entry] if mark.encode() in entry.read_bytes().split(b"\0") else []
        except OSError:
            continue
    return found


def gone(mark):
    end = time.monotonic() + 60
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(mark)


def test_a_worker_under_a_tool_is_closed_in_as_any_other_and_the_tool_with_it(pools, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the judge")
    script = f"import os; seen = os.path.exists({str(secret)!r}); {START}print('seen', seen)"
    with under(pools, script) as pool:
        assert pool.layers == pools(KINDS[0]).layers
        said = pool.finish(60)
    assert ("seen False" if pool.isolation == "bubblewrap" else "seen") in said


def test_a_tool_that_does_not_end_is_killed_with_all_that_it_started(pools):
    mark = "tool-that-hangs-at-the-end"
    with under(pools, START + "time.sleep(600)", mark) as pool:
        pool.worker(payload(NOTHING)).kill()
        assert alive(mark)
        with pytest.raises(WorkerError, match="did not end within 0 s and was killed"):
            pool.finish(0.01)
    assert gone(mark)


@pytest.mark.parametrize(
    ("script", "start_s", "said"),
    [
        ("print('==ERROR== ERR_NVGPUCTRPERM', flush=True); raise SystemExit(1)", 60, "ERR_NVGPUCTRPERM"),
        ("import time; time.sleep(600)", 0.01, "does not answer"),
    ],
)
def test_a_tool_that_starts_nothing_is_an_error_and_never_a_weaker_sandbox(pools, script, start_s, said):
    mark = f"tool-{start_s}"
    with under(pools, script, mark, start_s=start_s) as pool, pytest.raises(WorkerError, match=said):
        pool.worker(payload(NOTHING))
    assert pool.isolation == KINDS[0] and gone(mark)


def test_a_tool_that_fails_in_the_end_says_how(tmp_path):
    line = (sys.executable, "-c", "print('3 passes'); print('no kernels'); raise SystemExit(3)")
    with pytest.raises(WorkerError, match="status 3: no kernels"):
        Zygote("none", tmp_path, {}, None, (), under=line).finish(60)
