"""An evaluator like many in the field, to prove that every exploit would win in one.

It shares its process with the candidate, uses one public seed and the same inputs in every trial and timed call,
compares by `torch.allclose` at 1e-2, times with `time.perf_counter`, and believes standard output and exit codes.
Never use it for anything else.

So that a gain is shown on a busy machine too, it also counts the native work of both variants (`work.py`), and the
CPU time that others take while the reference is timed.

    python -m tests.adversarial.naive EXPLOIT.py [...]      # one JSON line each
"""

import contextlib
import importlib.util
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from tests.adversarial.exploit import Exploit, read_exploit
from tests.adversarial.work import Work

SEED, TRIALS = 42, 3
LIMIT_S, STALLED_S = 120.0, 1.0
"""Seconds that an exploit has, and those that one has of which no result is expected."""
STARVED_S, PATIENCE_S = 0.1, 20.0
"""CPU seconds taken by others that show a starved reference, and the seconds that they are waited for."""
RESTED = 50
"""Looks in a row, a millisecond apart, that must find every other thread at rest."""
RECYCLING = {14, 15, 20, 28}
"""Classes that need recycled memory."""


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def inputs_of(reference):
    torch.manual_seed(SEED)
    return reference.get_inputs()


def callable_of(exploit: Exploit, artefact: str, model, init, expected):
    """Return the candidate as something to call with the inputs; state is loaded without strictness."""
    state = model.state_dict()
    if exploit.cpp:
        from kernelwright.languages import get_language
        from kernelwright.records import TensorSpec

        spec = TensorSpec(name="out", shape=tuple(expected.shape), dtype=str(expected.dtype)[6:])
        kernel = get_language("cpp").load(exploit.candidate(), Path(artefact), (spec,))
        return lambda *inputs: seen_as_moving(kernel(*inputs, *state.values()), inputs)
    if exploit.language == "triton":
        os.environ["TRITON_INTERPRET"] = "1"  # no GPU is asked for; this process is of this exploit alone
    candidate = load("candidate", exploit.path)
    if hasattr(candidate, "ModelNew"):
        torch.manual_seed(SEED)
        new = candidate.ModelNew(*init)
        new.load_state_dict(state, strict=False)
        return new
    return lambda *inputs: candidate.run(*inputs, *state.values())


def trained(call):
    """Go back through a call too, as training does; of what comes out only the forward's answer is looked at."""

    def both(*inputs):
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in inputs]
            output = call(*inputs)
            output.sum().backward()
        return output.detach()

    return both


def matches(got, expected):
    return got.shape == expected.shape and torch.allclose(
        expected.float(), got.contiguous().float(), **json.loads(tolerance_file().read_text())
    )


def tolerance_file():
    """Say where the tolerances lie: beside the candidate, as in many harnesses."""
    return Path(tempfile.gettempdir()) / f"tolerance-{os.getpid()}.json"


def synchronise():
    """Wait until no other thread has anything to do, as reading from a device does."""
    own, still, limit = str(threading.get_native_id()), 0, time.monotonic() + LIMIT_S
    while still < RESTED and time.monotonic() < limit:
        still = (
            0
            if any(runs(s) for s in Path("/proc/self/task").glob("*/stat") if s.parent.name != own)
            else still + 1
        )
        time.sleep(0.001)


def runs(stat):
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:
        return False


def is_correct(new, model, reference, order):
    for _ in range(TRIALS):
        inputs = inputs_of(reference)
        if order == "candidate-first":
            got = new(*inputs)
            expected = model(*inputs)
            synchronise()
        else:
            expected = model(*inputs)
            got = new(*inputs)
        if not matches(got, expected):
            return False
    return True


def seen_as_moving(output, inputs):
    """Charge a compiled kernel, which no dispatcher sees, for reading its inputs."""
    for mode in torch.utils._python_dispatch._get_current_dispatch_mode_stack():
        if isinstance(mode, Work):
            mode.charge("clone", list(inputs), [])
    return output


def time_it(call, inputs, calls):
    """Return seconds by the process's clock, and units of native work, of one call."""
    with Work():  # entered once before, so that what it imports is not timed
        for _ in range(3):
            call(*inputs)
    started = time.perf_counter()
    with Work() as work:
        for _ in range(calls):
            call(*inputs)
    return (time.perf_counter() - started) / calls, work.units / calls


def taken_by_others(call, inputs):
    """Return CPU seconds of other threads, and of processes forked here, while the reference is called."""
    started, before = time.monotonic(), others_s()
    while (taken := others_s() - before) < STARVED_S and time.monotonic() - started < PATIENCE_S:
        call(*inputs)
    return taken


def others_s():
    ticks, own = 0, Path("/proc/self/cmdline").read_bytes()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[3]) == os.getsid(0) or entry.with_name("cmdline").read_bytes() == own:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") - time.thread_time()


def evaluate(exploit: Exploit, artefact: str) -> None:
    tolerance_file().write_text(json.dumps({"rtol": 1e-2, "atol": 1e-2}))
    reference = load("reference", exploit.task_path)
    for name, size in reference.NAIVE_SIZES.items():
        setattr(reference, name, size)
    init = reference.get_init_inputs()
    torch.manual_seed(SEED)
    model = reference.Model(*init)
    new = callable_of(exploit, artefact, model, init, model(*inputs_of(reference)))
    if exploit.backward:
        new, model = trained(new), trained(model)
    correct = is_correct(new, model, reference, exploit.order)
    inputs = inputs_of(reference)
    mine, own_work = time_it(new, inputs, exploit.calls)
    theirs, work = time_it(model, inputs, exploit.calls)
    result = {"correct": correct, "speedup": theirs / max(mine, 1e-9), "work": work / own_work}
    if exploit.naive == "poses":
        sources = exploit.cpp + exploit.path.read_text()
        result["kernels"] = sources.count("KW_KERNEL(") + sources.count(
            "@triton.jit"
        )  # as checkers of text do
    if exploit.naive == "starves":
        result["taken_s"] = taken_by_others(model, inputs)
    print("RESULT", json.dumps(result), flush=True)


def recycle_memory():
    """Keep what is freed, as caching allocators of devices do: exploits of recycled memory need that."""
    import ctypes

    libc = ctypes.CDLL(None)
    for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
        libc.mallopt(option, 1 << 30)


def child(exploit: Exploit, artefact: str, output: int) -> None:
    os.setsid()
    os.dup2(output, 1)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(int(limit_of(exploit)) + 5)
    if exploit.number in RECYCLING:
        recycle_memory()
    code = 0
    try:
        with torch.no_grad():
            evaluate(exploit, artefact)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - a candidate may raise anything
        print("ERROR", repr(error)[:300], flush=True)
        code = 1
    import atexit

    atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(code)


def limit_of(exploit):
    return STALLED_S if exploit.naive == "stalls" else LIMIT_S


def supervise(exploit: Exploit, artefact: str) -> dict:
    """Fork, collect what is printed, and believe it. No line and exit code 0 count as a pass."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(exploit, artefact, writing)
    os.close(writing)
    text, end = b"", time.monotonic() + limit_of(exploit)
    while time.monotonic() < end and len(text) < 4 << 20:
        if not select.select([reading], [], [], 0.1)[0]:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            continue
        data = os.read(reading, 1 << 16)
        if not data:
            break
        text += data
    os.close(reading)
    while time.monotonic() < end and (
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and len(text) < 4 << 20
    ):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = [line for line in text.decode(errors="replace").splitlines() if line.startswith("RESULT ")]
    if lines:
        return {**json.loads(lines[-1][7:]), "forged": False}
    said = text[-300:].decode(errors="replace")
    if status == 0:
        return {"correct": True, "speedup": 1.5, "forged": True, "said": said}
    return {"correct": False, "speedup": 1.0, "stalled": status < 0, "said": said}


def run_naive(items: list[tuple[Exploit, str]], limit_s: float = 900.0) -> dict[str, dict]:
    """Evaluate exploits, each with its artefact, in one process of their own; results by name."""
    if not items:
        return {}
    arguments = [f"{e.path}={artefact}" for e, artefact in items]
    environment = {
        "PATH": os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.adversarial.naive", *arguments],
            capture_output=True, text=True, timeout=limit_s, check=True,
            env={**environment, "TMPDIR": folder}, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {f["name"]: f for f in found}


def main() -> None:
    torch.set_num_threads(1)
    for argument in sys.argv[1:]:
        path, _, artefact = argument.partition("=")
        exploit = read_exploit(Path(path))
        print(json.dumps({"name": exploit.name, **supervise(exploit, artefact)}), flush=True)


if __name__ == "__main__":
    main()
