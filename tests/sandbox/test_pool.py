"""Pools: layers, zygotes, and that nothing is left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from kernelwright.config import Settings
from kernelwright.errors import InputError, MissingToolError
from kernelwright.sandbox import LAYERS, Arena, Pool, WorkerFailure, _process, _zygotes
from kernelwright.sandbox._layers import active_layers
from kernelwright.system.landlock import readable_paths

from .conftest import EVERY_KIND, KINDS, payload, vector

IDENTITY = "def run(x): return x + 0\n"


def test_zygotes_start_here_as_they_do_for_users() -> None:
    assert _zygotes.Zygotes._start.__module__ == _zygotes.__name__, (
        "`tests/split_zygotes.py` leaves them alone here"
    )


def test_layers_name_what_holds_in_each_kind(any_pool: Pool) -> None:
    always = {"process-group", "rlimits", "environment"}
    closed = {"read-only", "no-network", "seccomp", "no-capabilities"}
    layers = set(any_pool.layers)
    assert always <= layers <= {*LAYERS, any_pool.isolation}
    if any_pool.isolation == "none":
        assert not layers & {"bubblewrap", "landlock", "read-only", "no-network", "seccomp"}
    else:
        assert closed | {any_pool.isolation} <= layers


def test_a_layer_that_does_not_hold_is_not_named(pools: object) -> None:
    pool = pools("none")  # type: ignore[operator]
    with pool.worker(payload(IDENTITY)) as worker:
        assert "landlock" not in active_layers(worker, "landlock")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_many_workers_leave_nothing(kind: str, pools: object) -> None:
    pool = pools(kind)  # type: ignore[operator]
    with pool.worker(payload(IDENTITY)):
        pass
    slot = pool.arena.place(torch.ones(4))
    before = _belongings()
    for number in range(40 if kind == KINDS[0] else 10):
        text = "import os\nos._exit(1)\n" if number % 10 == 9 else IDENTITY
        try:
            with pool.worker(payload(text)) as worker:
                worker.call([worker.bind((slot,), vector())])
                worker.fetch()
        except WorkerFailure:
            assert number % 10 == 9
    assert _belongings() == before
    assert list(pool._zygotes.staging.iterdir()) == []


def test_a_dead_zygote_is_replaced(tmp_path: Path) -> None:
    environ = {"KERNELWRIGHT_SANDBOX": KINDS[0], "KERNELWRIGHT_CACHE": str(tmp_path)}
    with Pool(Settings.from_environment(environ)) as pool:
        with pool.worker(payload(IDENTITY)) as worker:
            psutil.Process(worker.pid).parent().kill()
            with pytest.raises(WorkerFailure):
                for _ in range(100):
                    worker.audit()
                    time.sleep(0.01)
        with pool.worker(payload(IDENTITY)) as worker:
            worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])


@pytest.mark.parametrize("kind", dict.fromkeys((KINDS[0], "none")))
def test_killing_the_judge_kills_its_workers(kind: str, tmp_path: Path) -> None:
    script = tmp_path / "judge.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import time
            from kernelwright.config import Settings
            from kernelwright.records import Candidate, SourceFile
            from kernelwright.sandbox import Payload, Pool

            text = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\n    time.sleep(999)\\ndef run(x): ..."
            source = SourceFile(path="k.py", text=text)
            pool = Pool(Settings.from_environment({{"KERNELWRIGHT_SANDBOX": "{kind}"}}))
            worker = pool.worker(Payload(Candidate(sources=(source,), language="torch", entry="k.py:run")))
            worker.audit()
            print(worker.pid, flush=True)
            time.sleep(1000)
            """
        )
    )
    judge = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert judge.stdout is not None
        worker = int(judge.stdout.readline())
        family = psutil.Process(judge.pid).children(recursive=True)
        assert worker in {p.pid for p in family} and len(family) >= 3
    finally:
        judge.send_signal(signal.SIGKILL)
        judge.wait()
        judge.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive, [p.cmdline() for p in alive]


def test_a_trusted_baseline_compiles_with_a_cache_that_candidates_do_not_see(pools: object) -> None:
    pool = pools(KINDS[0])  # type: ignore[operator]
    cache = pool._zygotes.baselines
    text = (
        "import os\n"
        "def run(x):\n"
        "    open(os.environ['TORCHINDUCTOR_CACHE_DIR'] + '/seen', 'w').close()\n"
        "    return x\n"
    )
    with pool.worker(payload(text, trusted=True)) as worker:
        worker.call([worker.bind((pool.arena.place(torch.ones(4)),), vector())])
    assert (cache / "seen").is_file()
    if "a baseline's compile cache is not seen by candidates" in pool.promises:
        for folder in (str(cache), "/cache"):
            text = f"def run(x): return x + len(open({folder + '/seen'!r}).read())\n"
            with pool.worker(payload(text)) as worker:
                number = worker.bind((pool.arena.place(torch.ones(4)),), vector())
                with pytest.raises(WorkerFailure, match=r"FileNotFoundError|PermissionError"):
                    worker.call([number])


@pytest.mark.parametrize("flag", ["--runtime=openvino", "--runtime=onnxruntime"])
def test_no_candidate_is_converted_for_another_runtime(pool: Pool, flag: str) -> None:
    given = payload(IDENTITY)
    asking = replace(given, candidate=given.candidate.model_copy(update={"flags": (flag,)}))
    with pytest.raises(WorkerFailure, match=f"flag '{flag}' is for baselines"):
        pool.worker(asking)


def test_an_unknown_or_missing_kind_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="expected auto, bubblewrap, landlock, none"):
        Pool(Settings.from_environment({"KERNELWRIGHT_SANDBOX": "jail"}))
    monkeypatch.setattr(_zygotes, "bubblewrap", lambda: None)
    monkeypatch.setattr(_zygotes, "landlock_version", lambda: 0)
    for kind in ("bubblewrap", "landlock"):
        with pytest.raises(MissingToolError, match=kind):
            Pool(Settings.from_environment({"KERNELWRIGHT_SANDBOX": kind}))
    assert Pool(Settings.from_environment({})).isolation == "none"


def test_automatic_choice_falls_back_where_bubblewrap_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.sandbox._bubblewrap.bubblewrap", lambda: "/bin/false")
    monkeypatch.setattr(_zygotes, "bubblewrap", lambda: "/bin/false")
    with Pool(Settings.from_environment({})) as pool:
        with pool.worker(payload(IDENTITY)) as worker:
            worker.audit()
        assert pool.isolation != "bubblewrap" and "bubblewrap" not in pool.layers


@pytest.mark.needs("Landlock")
def test_layers_that_claim_to_hold_and_do_not_are_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = (
        "import sys; from kernelwright.sandbox import _lockdown as c\n"
        "c.close_system_calls = c.close_files = c.drop_privileges = lambda *_, **__: True\n"
        "from kernelwright.sandbox._zygote import main; main(sys.argv[3:])"
    )
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    python.chmod(0o755)
    monkeypatch.setattr(_process, "sys", SimpleNamespace(executable=str(python)))
    environ = {"KERNELWRIGHT_SANDBOX": "landlock", "KERNELWRIGHT_CACHE": str(tmp_path)}
    with Pool(Settings.from_environment(environ)) as pool:
        layers = set(pool.layers)
    assert {"process-group", "rlimits", "environment"} <= layers
    assert not layers & {"landlock", "read-only", "seccomp"}
    if os.geteuid() == 0:
        assert "no-capabilities" not in layers


def test_packages_that_the_environment_takes_in_from_another_are_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "site-packages"
    other.mkdir()
    monkeypatch.syspath_prepend(str(other))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(other) in readable_paths() and str(tmp_path) not in readable_paths()


def test_slots_of_a_foreign_arena_are_refused(pool: Pool) -> None:
    with Arena(1 << 16) as arena, pool.worker(payload(IDENTITY)) as worker:
        slot = arena.place(torch.ones(4))
        with pytest.raises(InputError, match="new_arena"):
            worker.bind((slot,), vector())
        assert worker.alive


def test_workers_can_have_arenas_of_their_own(pool: Pool) -> None:
    with (
        pool.new_arena(1 << 16) as one,
        pool.new_arena(1 << 16) as two,
        pool.worker(payload(IDENTITY)) as worker,
    ):
        sets = [worker.bind((a.place(torch.full((4,), v)),), vector()) for a, v in ((one, 1.0), (two, 2.0))]
        worker.call(sets)
        assert [worker.fetch(i).outputs[0][0].item() for i in (0, 1)] == [1.0, 2.0]


def test_an_artefact_that_is_no_folder_is_explained(pool: Pool) -> None:
    with pytest.raises(InputError, match="not a folder"):
        pool.worker(payload(IDENTITY, artefact="/nowhere"))


def test_a_worker_starts_without_importing_anything_again(pool: Pool) -> None:
    with pool.worker(payload("import torch\ndef run(x): return x\n")) as worker:
        assert worker.cpu_us() < 500_000, "a fork takes milliseconds of CPU time, to import torch a second"


def _belongings() -> tuple[int, int]:
    processes = psutil.Process().children(recursive=True)
    return len(list(Path("/proc/self/fd").iterdir())), sum(
        p.status() != psutil.STATUS_ZOMBIE for p in processes
    )


@pytest.fixture
def own_pool(shared_cache: Path) -> Iterator[Pool]:
    environ = {"KERNELWRIGHT_SANDBOX": KINDS[0], "KERNELWRIGHT_CACHE": str(shared_cache)}
    with Pool(Settings.from_environment(environ), arena_bytes=1 << 20, memory_bytes=1 << 30) as pool:
        yield pool


@pytest.mark.long
def test_our_own_baselines_share_a_zygote_that_imports_the_compiler_beforehand(own_pool: Pool) -> None:
    text = "import sys\ndef run(x): return x + ('torch._dynamo' in sys.modules)\n"
    eager = payload(text, trusted=True)
    compiled = eager.candidate.model_copy(update={"flags": ("--compile=default",)})
    own_pool.prepare([eager.candidate, compiled], ["torch"])
    own_pool.prepare([compiled], ["cpp"])
    own_pool.prepare()
    assert list(own_pool._zygotes.keys) == [(False, ()), own_pool._key(eager)], (
        "what candidates need comes first"
    )
    with own_pool.worker(eager, deadline_s=600) as worker:
        reply = worker.call([worker.bind((own_pool.arena.place(torch.ones(4)),), vector())])
        assert worker.fetch(reply.first).outputs[0].tolist() == [2.0] * 4
    assert len(own_pool._zygotes.keys) == 2
    assert own_pool._key(payload(text)) == (False, ())


def test_the_zygote_of_compiled_baselines_compiles_once_before_it_forks(
    own_pool: Pool, shared_cache: Path
) -> None:
    text = (
        "from torch._inductor.cpu_vec_isa import valid_vec_isa_list as units\n"
        "from torch._inductor.config import cpp\n"
        "def run(x): return x + units.cache_info().currsize + 2 * (cpp.vec_isa_ok is True)\n"
    )
    asking = payload(text, trusted=True)
    compiled = asking.candidate.model_copy(update={"flags": ("--compile=default",)})
    own_pool.prepare([compiled])
    (key,) = own_pool._zygotes.keys
    with own_pool.worker(asking, deadline_s=600) as worker:
        reply = worker.call([worker.bind((own_pool.arena.place(torch.zeros(4)),), vector())])
        assert worker.fetch(reply.first).outputs[0].tolist() == [3.0] * 4, (
            "vector units were looked for before, and need not be tried again"
        )
    *_, kept = sorted((shared_cache / "baselines").glob("findings-*.json"), key=lambda f: f.stat().st_mtime)
    assert set(json.loads(kept.read_text())) == {"torch", "triton"}
    zygote = psutil.Process(own_pool._zygotes.ready(key)._process.pid)
    threads = {process.num_threads() for process in (zygote, *zygote.children(recursive=True))}
    assert threads == {1}, "a process with threads cannot be forked"


def test_the_zygote_of_baselines_goes_on_from_that_of_candidates(own_pool: Pool) -> None:
    text = "import os\ndef run(x): return x + ('TORCHINDUCTOR_CACHE_DIR' in os.environ)\n"
    said = []
    for trusted in (False, True, False):
        asking = payload(text, trusted=trusted)
        if trusted:
            compiled = asking.candidate.model_copy(update={"flags": ("--compile=default",)})
            own_pool.prepare([compiled])
        with own_pool.worker(asking, deadline_s=600) as worker:
            reply = worker.call([worker.bind((own_pool.arena.place(torch.zeros(1)),), vector(1))])
            said.append(worker.fetch(reply.first).outputs[0].item())
    assert said == [0.0, 1.0, 0.0], "each has the environment of its own kind"
    plain, ours = own_pool._zygotes._running.values()
    splits = plain.nesting != "none" and own_pool.isolation != "bubblewrap"
    assert (psutil.Process(ours._process.pid).ppid() == plain._process.pid) is splits
    assert ours.alive and ours.nesting == plain.nesting
    plain.close()
    assert not splits or ours._process.wait(60) == 0, "it ends with the one it came from"


def test_a_zygote_ends_with_its_judge_though_it_still_imports(own_pool: Pool) -> None:
    own_pool.prepare([payload("def run(x): return x\n").candidate])
    (zygote,) = own_pool._zygotes._running.values()
    zygote._control.shutdown(socket.SHUT_RDWR)  # what the kernel does for a judge that is killed
    assert zygote._process.wait(300) == -signal.SIGIO
