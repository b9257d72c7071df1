"""What a candidate may try, and how it ends: a failure within its deadline, nothing reached, nothing left."""

import os
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch

from kernelwright.sandbox import FailureKind, Pool, WorkerFailure, _zygotes

from .conftest import call_once, payload, vector

HEAD = "import os, ctypes, socket, subprocess, sys, threading, time, torch\n"


def failure_of(pool: Pool, body: str, deadline_s: float = 120.0) -> WorkerFailure:
    with pytest.raises(WorkerFailure) as failure:
        call_once(pool, f"{HEAD}def run(x):\n    {body}\n    return x + 1\n", deadline_s)
    return failure.value


def answer_of(pool: Pool, expression: str) -> float:
    """Evaluate in a worker; 1 where it succeeded, -1 where it raised OSError."""
    body = f"    try:\n        {expression}\n    except OSError:\n        return x - 2\n    return x\n"
    return call_once(pool, f"{HEAD}def run(x):\n{body}")[0].item()


def test_a_kernel_that_hangs_is_killed_at_its_deadline(any_pool: Pool) -> None:
    with any_pool.worker(payload(f"{HEAD}def run(x):\n    while True: pass\n")) as worker:
        number = worker.bind((any_pool.arena.place(torch.ones(4)),), vector())
        with pytest.raises(WorkerFailure) as failure:
            worker.call([number], deadline_s=0.5)
        assert failure.value.kind is FailureKind.TIMEOUT and not worker.alive
        assert not psutil.pid_exists(worker.pid) or psutil.Process(worker.pid).status() == "zombie"
        with pytest.raises(WorkerFailure, match="before"):
            worker.call([number])


@pytest.mark.parametrize(
    ("body", "limit_s"),
    [("time.sleep(60)", {}), ("threading.Event().wait()", {}), ("while True: pass", {"busy_s": 1.0})],
)
def test_who_will_not_answer_is_given_up_long_before_the_deadline(
    pool: Pool, body: str, limit_s: dict
) -> None:
    with pool.worker(payload(f"{HEAD}def run(x):\n    {body}\n")) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        begun = time.monotonic()
        with pytest.raises(WorkerFailure, match=r"at work|computing") as failure:
            worker.call([number], deadline_s=100.0, **limit_s)
        assert failure.value.kind is FailureKind.TIMEOUT and not worker.alive
        assert time.monotonic() - begun < 30


def test_loading_that_waits_for_nothing_is_given_up_too(pool: Pool) -> None:
    with pytest.raises(WorkerFailure, match="at work"):
        pool.worker(payload(f"{HEAD}time.sleep(60)\n"), deadline_s=100.0)


def test_who_waits_for_a_process_at_work_is_waited_for(pool: Pool) -> None:
    spin = "import time; end = time.time() + 4\nwhile time.time() < end: pass"
    wait = f"subprocess.run([sys.executable, '-c', {spin!r}], check=True)"
    found = call_once(pool, f"{HEAD}def run(x):\n    {wait}\n    return x + 1\n", 100.0)
    assert found[0].eq(2).all()


def test_loading_has_a_deadline_too(pool: Pool) -> None:
    with pytest.raises(WorkerFailure) as failure:
        pool.worker(payload(f"{HEAD}time.sleep(60)\n"), deadline_s=0.5)
    assert failure.value.kind is FailureKind.TIMEOUT


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("ctypes.string_at(0)", FailureKind.CRASHED, "SIGSEGV"),
        ("os._exit(0)", FailureKind.CRASHED, "status 0"),
        ("ctypes.CDLL(None).abort()", FailureKind.CRASHED, "SIG"),
        ("torch.ones(1 << 40)", FailureKind.OUT_OF_MEMORY, "memory"),
        ("x = [bytearray(1 << 28) for _ in range(1000)]", FailureKind.OUT_OF_MEMORY, "Memory"),
        ("os.write(3, b'x' * 100)", FailureKind.PROTOCOL, "announced"),
        ("os.write(3, b'\\x02\\0\\0\\0{}')", FailureKind.PROTOCOL, "no request"),
        ("os.write(3, b'\\x02\\0\\0\\0[]')", FailureKind.PROTOCOL, "not a JSON object"),
        ("os.write(3, b'\\x02\\0\\0\\0}{')", FailureKind.PROTOCOL, "not JSON"),
        ("os.close(3)", FailureKind.CRASHED, "status 70"),
        ("sys.exit(0)", FailureKind.ERROR, "SystemExit"),
        ("return torch.ones(1 << 23)", FailureKind.ERROR, "expected about"),
    ],
)  # fmt: skip
def test_each_way_to_go_wrong_has_its_kind(pool: Pool, body: str, kind: FailureKind, words: str) -> None:
    failure = failure_of(pool, body)
    assert failure.kind is kind, failure
    assert words in failure.message


def test_a_message_that_nobody_asked_for_is_a_failure(pool: Pool) -> None:
    body = (
        "    def later():\n        while x[0] == 1: time.sleep(0.001)\n        os.write(3, b'\\x02\\0\\0\\0{}')\n"
        "    threading.Thread(target=later).start()\n    return x + 1\n"
    )
    with pool.worker(payload(f"{HEAD}def run(x):\n{body}")) as worker:
        slot = pool.arena.place(torch.ones(4))
        worker.call([worker.bind((slot,), vector())])
        pool.arena.refill(slot, torch.zeros(4))
        with pytest.raises(WorkerFailure) as failure:
            for _ in range(1000):
                worker.cpu_us()  # lets it go on
                time.sleep(0.02)
                worker.fetch()
    assert failure.value.kind is FailureKind.PROTOCOL


def test_endless_output_neither_blocks_nor_counts(any_pool: Pool) -> None:
    output = call_once(
        any_pool, f"{HEAD}def run(x):\n    os.write(1, b'y' * 50_000_000)\n    return x + 1\n", 30.0
    )
    assert output.tolist() == [2.0] * 4
    failure = failure_of(any_pool, "print('the end', flush=True); os._exit(3)")
    assert failure.output.endswith("the end\n") and len(failure.output) <= 8192
    assert "status 3" in failure.message


def test_processes_that_detach_die_with_the_worker(any_pool: Pool) -> None:
    text = (
        f"{HEAD}def run(x):\n"
        "    for _ in range(3):\n"
        "        if os.fork() == 0:\n"
        "            os.setsid()\n"
        "            if os.fork() == 0: time.sleep(1000)\n"
        "            os._exit(0)\n"
        "    return x + 1\n"
    )
    with any_pool.worker(payload(text)) as worker:
        worker.call([worker.bind((any_pool.arena.place(torch.ones(4)),), vector())])
        deadline = time.monotonic() + 60
        while worker.audit().processes != 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        below = [p.pid for p in psutil.Process(worker.pid).children(recursive=True) if p.status() != "zombie"]
        assert len(below) == 3
    assert not any(_runs(pid) for pid in below)


LEAVE = """
import ctypes, os, time

def leave():
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)

"""


def test_a_process_left_at_import_is_counted_and_dies(any_pool: Pool) -> None:
    with any_pool.worker(payload(f"{LEAVE}leave()\ndef run(x): return x + 1\n")) as worker:
        assert worker.audit().processes == 1
        below = [p.pid for p in psutil.Process(worker.pid).children() if p.status() != "zombie"]
    assert len(below) == 1
    assert not _runs(below[0])


@pytest.mark.needs("system call filter")
def test_a_worker_cannot_hand_its_orphans_on(closed_pool: Pool) -> None:
    text = f"{LEAVE}assert ctypes.CDLL(None).prctl(36, 0, 0, 0, 0) == -1\nleave()\ndef run(x): return x + 1\n"
    with closed_pool.worker(payload(text)) as worker:
        assert worker.audit().processes == 1


@pytest.mark.needs("PID namespaces")
def test_a_fork_bomb_stays_small_and_dies(pool: Pool) -> None:
    text = f"{HEAD}def run(x):\n    while True:\n        try: os.fork()\n        except OSError: time.sleep(0.01)\n"
    with pool.worker(payload(text)) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        with pytest.raises(WorkerFailure) as failure:
            worker.call([number], deadline_s=0.3)
    assert failure.value.kind is FailureKind.TIMEOUT
    assert not _runs(worker.pid)
    assert call_once(pool, "def run(x): return x + 1\n").tolist() == [2.0] * 4


def test_the_network_is_closed(pool: Pool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answer_of(pool, f"socket.create_connection(('127.0.0.1', {port}), 1)") == -1
        assert answer_of(pool, "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)") == -1
        assert answer_of(pool, "socket.socket(socket.AF_UNIX)") == -1
    assert answer_of(pool, "socket.socketpair()") == 1


def test_files_of_the_judge_cannot_be_read(closed_pool: Pool, tmp_path: Path) -> None:
    secret = tmp_path / "task.py"
    secret.write_text("expected")
    secret.chmod(0o644)
    for path in (secret, Path(__file__), closed_pool._zygotes._settings.store, Path("/etc/shadow")):
        attempt = "os.listdir" if path.is_dir() else "open"
        assert answer_of(closed_pool, f"{attempt}({str(path)!r})") == -1, path
    assert answer_of(closed_pool, "open(torch.__file__)") == 1


def test_only_the_private_folder_can_be_written(closed_pool: Pool) -> None:
    package = str(Path(torch.__file__).parent)
    for folder in (
        "/",
        "/usr",
        "/etc",
        "/var/tmp",
        package,
        "/proc/sys/kernel",
        "/build",
        "/staging",
        "/dev",
    ):
        assert answer_of(closed_pool, f"open({folder + '/new'!r}, 'w')") == -1, folder
    assert answer_of(closed_pool, "open('new', 'w').write('x')") == 1
    assert answer_of(closed_pool, "open(__import__('tempfile').mktemp(), 'w')") == 1
    assert answer_of(closed_pool, "open('/proc/sys/kernel/core_pattern', 'w')") == -1


def test_the_temporary_folder_starts_empty_and_goes_away(any_pool: Pool) -> None:
    text = f"{HEAD}open('left', 'w').close()\ndef run(x): return x + len([n for n in os.listdir() if n == 'left'])\n"
    folders = list(any_pool._zygotes.staging.iterdir())
    assert call_once(any_pool, text).tolist() == [2.0] * 4
    look = f"{HEAD}def run(x): return x + len([n for n in os.listdir() if n == 'left'])\n"
    assert call_once(any_pool, look).tolist() == [1.0] * 4
    assert list(any_pool._zygotes.staging.iterdir()) == folders


@pytest.mark.needs("system call filter")
@pytest.mark.parametrize(
    "call",
    [
        "libc.ptrace(16, os.getppid(), 0, 0)",
        "libc.mount(b'none', b'/tmp', b'tmpfs', 0, 0)",
        "libc.unshare(0x10000000)",
        "libc.syscall(425, 8, 0)",
        "libc.prctl(1, 0, 0, 0, 0)",
        "(libc.setuid(0) if os.getuid() else libc.unshare(0x20000))",
        "libc.personality(0x0040000)",
    ],
)
def test_system_calls_that_reach_out_are_refused(pool: Pool, call: str) -> None:
    text = f"{HEAD}libc = ctypes.CDLL(None, use_errno=True)\ndef run(x): return x * {call}\n"
    assert call_once(pool, text).tolist() == [-1.0] * 4


def test_the_environment_is_not_the_judges(any_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "environment" in any_pool.layers
    text = f"{HEAD}def run(x): return x * ('PYTEST_CURRENT_TEST' in os.environ)\n"
    assert "PYTEST_CURRENT_TEST" in os.environ
    assert call_once(any_pool, text).tolist() == [0.0] * 4


def test_only_the_channel_is_inherited(any_pool: Pool) -> None:
    with any_pool.worker(payload("def run(x): return x\n")) as worker:
        found = worker.audit().descriptors
    assert found == ("/dev/null", "pipe", "pipe", "socket")


def test_threads_descriptors_and_patches_left_behind_show_in_an_audit(pool: Pool) -> None:
    text = (
        f"{HEAD}def run(x):\n"
        "    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
        "    os.dup(1)\n"
        "    torch.allclose = lambda *a, **k: True\n"
        "    torch.nn.functional.softmax = None\n"
        "    time.perf_counter = lambda: 0.0\n"
        "    torch.set_default_dtype(torch.float64)\n"
        "    torch.backends.cuda.matmul.allow_tf32 = True\n"
        "    os.environ['ADDED'] = '1'\n"
        "    os.chdir('/')\n"
        "    return x + 1\n"
    )
    with pool.worker(payload(text)) as worker:
        number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
        before = worker.audit()
        reply = worker.call([number])
        after = worker.audit()
    assert before.patched == () and before.environment == ()
    assert set(after.patched) == {"torch.allclose", "torch.nn.functional.softmax", "time.perf_counter"}
    precision = {"cuda_tf32", "matmul_precision", "fp32_precision of cuda.matmul"}
    assert before.flags == () and set(after.flags) == {"default_dtype", *precision}
    assert after.threads == before.threads + 1 == reply.threads
    assert len(after.descriptors) == len(before.descriptors) + 1
    assert after.environment == ("ADDED",) and (before.folder, after.folder) != ("/", before.folder)


def test_what_was_changed_while_loading_shows_too(pool: Pool) -> None:
    text = f"{HEAD}torch.set_default_dtype(torch.float64)\ntorch.allclose = None\ndef run(x): return x\n"
    with pool.worker(payload(text)) as worker:
        found = worker.audit()
    assert (found.flags, found.patched) == (("default_dtype",), ("torch.allclose",))


def test_a_worker_does_not_reach_another(closed_pool: Pool) -> None:
    text = f"{HEAD}def run(x, pid):\n    os.kill(pid, 9)\n    return x\n"
    with (
        closed_pool.worker(payload("def run(x): return x + 1\n")) as victim,
        closed_pool.worker(payload(text)) as attacker,
    ):
        slot = closed_pool.arena.place(torch.ones(4))
        with pytest.raises(WorkerFailure):
            attacker.call([attacker.bind((slot, victim.pid), vector())])
        victim.call([victim.bind((slot,), vector())])
        assert victim.fetch().outputs[0].tolist() == [2.0] * 4


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.mark.needs("Landlock")
def test_a_worker_under_landlock_sees_the_machine_and_not_the_root_folder(pools: object) -> None:
    text = (
        f"{HEAD}def run(x):\n"
        "    root = os.environ['HWLOC_FSROOT']\n"
        "    assert 'MemTotal' in open(root + '/proc/meminfo').read()\n"
        "    assert os.listdir(root + '/sys/devices/system')\n"
        "    os.listdir('/')\n"
        "    return x\n"
    )
    with pytest.raises(WorkerFailure, match=r"PermissionError.*'/'"):
        call_once(pools("landlock"), text)  # type: ignore[operator]


def test_a_judge_that_was_killed_leaves_its_staged_files_for_a_minute_only(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    old, fresh, mine, other = (
        tmp_path / name
        for name in (f"{_zygotes.STAGING}{gone.pid}-a", f"{_zygotes.STAGING}{gone.pid}-b",
                     f"{_zygotes.STAGING}{os.getpid()}-a", "kept")
    )  # fmt: skip
    for folder in (old, fresh, mine, other):
        (folder / "build").mkdir(parents=True)
    for folder in (old, mine, other):
        os.utime(folder, (0, 0))
    _zygotes.sweep(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {fresh.name, mine.name, other.name}
