"""Python programs in processes of their own that need not import torch first: forked from one that has.

    run(["-m", "kernelwright", "doctor"], cwd=..., env=...)     as `subprocess.run([sys.executable, ...])`
    run(["-c", "import torch; ..."], cwd=..., prepared=STRANGER)

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
JUDGES = "kernelwright.api.judge"
"""Who imports it may judge: its zygotes need not import torch either."""
STRANGER = ("torch", "torch._subclasses.fake_tensor", "numpy", "tvm_ffi")
"""The same for a program that is none of ours."""
_PR_SET_PDEATHSIG = 1
_templates: dict[tuple[str, ...], subprocess.Popen[str]] = {}
_lock = threading.Lock()


def run(
    words: Sequence[object],
    *,
    cwd: Path | str,
    env: Mapping[str, str] | None = None,
    timeout: float = 400.0,
    prepared: tuple[str, ...] = PREPARED,
) -> subprocess.CompletedProcess[str]:
    """Run `python WORDS`, which begin with `-m MODULE` or are `-c TEXT`, and return what it printed.

    Raises:
        subprocess.TimeoutExpired: it did not end in time; it is killed with the process that it was forked from.
    """
    option, *arguments = map(str, words)
    assert option in ("-m", "-c"), f"{option} {arguments}"
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        request = {
            "option": option,
            "arguments": arguments,
            "cwd": str(cwd),
            "env": dict(env or os.environ),
            "streams": [str(out), str(err)],
        }
        with _lock:
            code = _answer(_template(prepared), request, timeout)
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def _template(prepared: tuple[str, ...]) -> subprocess.Popen[str]:
    known = _templates.get(prepared)
    if known is None or known.poll() is not None:
        command = [sys.executable, __file__, *prepared]
        known = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(known.kill)
        _templates[prepared] = known
    return known


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


def _serve() -> str:
    """Fork for each request, one after the other; only children leave this function, with `-m` or `-c`."""
    for name in sys.argv[1:]:
        __import__(name)
    if JUDGES in sys.argv:
        import split_zygotes  # next to this file

        split_zygotes.import_ahead()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            if JUDGES in sys.argv:
                split_zygotes.inherit()
            _become(request)
            return str(request["option"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    raise SystemExit


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
    if _serve() == "-m":
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        exec(compile(sys.argv[0], "<string>", "exec"), {"__name__": "__main__"})
