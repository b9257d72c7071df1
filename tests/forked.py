"""Python programs in processes of their own that need not import torch first: forked from one that has.

    run(["-m", "kernelwright", "doctor"], cwd=..., env=...)     as `subprocess.run([sys.executable, ...])`

Covers: what a program prints, its exit code, files that it writes, what it registered for its end.
Does not cover: what happens while a program starts, signals to it, variables that are read on import
(`OMP_NUM_THREADS`); start a real one for these.
"""

import atexit
import ctypes
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

PREPARED = ("torch", "numpy", "kernelwright.flow", "kernelwright.api.judge", "kernelwright.cli")
"""What is imported before the first fork."""
_PR_SET_PDEATHSIG = 1
_templates: list[subprocess.Popen[str]] = []
_lock = threading.Lock()


def run(
    words: Sequence[object], *, cwd: Path | str, env: Mapping[str, str] | None = None, timeout: float = 400.0
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS`, which begin with `-m MODULE`, and return what it printed.

    Raises:
        subprocess.TimeoutExpired: it did not end in time; it is killed with the process that it was forked from.
    """
    option, *arguments = map(str, words)
    assert option == "-m", f"{option} {arguments}"
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(env or os.environ),
            "streams": [str(out), str(err)],
        }
        with _lock:
            code = _answer(_template(), request, timeout)
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def _template() -> subprocess.Popen[str]:
    if not _templates or _templates[-1].poll() is not None:
        command = [sys.executable, __file__]
        made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(made.kill)
        _templates.append(made)
    return _templates[-1]


def _answer(template: subprocess.Popen[str], request: object, timeout: float) -> int:
    """Send a request and return the exit code; negative for a signal, as `subprocess` has it."""
    assert template.stdin is not None
    assert template.stdout is not None
    late = threading.Timer(timeout, template.kill)
    late.start()
    try:
        template.stdin.write(json.dumps(request) + "\n")
        template.stdin.flush()
        line = template.stdout.readline()
    finally:
        late.cancel()
    if not line:
        raise subprocess.TimeoutExpired("python", timeout)
    return int(line)


def _serve() -> None:
    """Fork for each request, one after the other; only children leave this function, to run the program."""
    for name in PREPARED:
        __import__(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: dict[str, list[str]]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, path in enumerate(request["streams"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    sys.argv = list(request["arguments"])
    sys.path[0] = str(request["cwd"])
    tempfile.tempdir = None


if __name__ == "__main__":
    _serve()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
