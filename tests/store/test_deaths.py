"""A process killed at random moments, a disk that fills up: nothing lost, nothing counted twice."""

import os
import random
import signal
import subprocess
import sys

import pytest

from kernelwright.errors import BusyError, StoreError
from kernelwright.store import DeviceLock, RunLock, Store

WRITER = """
import sys
from kernelwright.records import Budget
from kernelwright.store import EvaluationKey, Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task

folder, limit = sys.argv[1], int(sys.argv[2])
if limit:
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
store = Store(folder)
run = store.runs()[0] if store.runs() else store.create_run(
    planted_task(), device="cpu-1", budget=Budget(evaluations=10**6), seed=0)
judge, language = PlantedJudge(), PlantedLanguage()
print("ready", len(store.evaluations(run.id)), flush=True)
for number in range(len(store.evaluations(run.id)), 10**6):
    candidate = planted_candidate(1.0 + number)
    evaluation = judge.screen(candidate, language.build(candidate))
    key = EvaluationKey(candidate.key, run.task, run.device, "1", "1")
    store.save_evaluation(run.id, key, evaluation, elapsed_s=float(number))
    print(number, flush=True)
"""


def start_writer(folder, limit=0):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), str(limit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
def test_killed_at_random_moments(tmp_path):
    moments = random.Random(0)
    said = -1
    for _ in range(5):
        writer = start_writer(tmp_path)
        assert writer.stdout.readline().startswith("ready")
        heard = [int(writer.stdout.readline()) for _ in range(moments.randrange(2, 30))]
        os.kill(writer.pid, signal.SIGKILL)
        numbers = heard + [int(line) for line in writer.stdout.read().splitlines() if line.strip()]
        writer.communicate()
        with Store(tmp_path) as store:
            (run,) = store.runs()
            evaluations = store.evaluations(run.id)
            times = [e.decision.time_us for e in evaluations]
            said = max([said, *numbers])
            # Everything it said was saved is there; one more may have been saved and not said.
            assert len(evaluations) - 1 in (said, said + 1)
            assert times == [1.0 + n for n in range(len(times))]
            assert store.spent(run.id).evaluations == len(times)
            said = len(evaluations) - 1
    assert said > 5


def test_full_disk_loses_nothing_that_was_saved(tmp_path):
    Store(tmp_path).close()
    writer = start_writer(tmp_path, limit=150_000)
    out, err = writer.communicate(timeout=60)
    assert writer.returncode == 1
    last = err.strip().splitlines()[-1]
    assert "StoreError" in last and "free some space" in last
    saved = int(out.split()[-1])
    with Store(tmp_path) as store:
        assert len(store.evaluations(store.run("last").id)) == saved + 1


def test_run_lock_dies_with_its_process(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from kernelwright.store import RunLock\n"
        "with RunLock(Path(sys.argv[1]), 'r1').hold(): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    lock = RunLock(tmp_path, "r1")
    assert holder.stdout.readline() == "held\n"
    assert lock.held()
    with pytest.raises(StoreError, match=f"process {holder.pid}"), lock.hold():
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert not lock.held()
    with lock.hold():
        assert RunLock(tmp_path, "r1").held()


def test_a_lock_holds_on_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    lock = RunLock(tmp_path, "r1")
    with lock.hold():
        assert RunLock(tmp_path, "r1").held()


def test_device_lock_takes_turns_and_says_so(tmp_path):
    code = (
        "import sys; from pathlib import Path; from kernelwright.store import DeviceLock\n"
        "with DeviceLock(Path(sys.argv[1]), 'cpu-1').hold(): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    lock, said = DeviceLock(tmp_path, "cpu-1"), []

    def let_go(message: str) -> None:
        said.append(message)
        holder.stdin.close()

    with lock.hold(let_go), lock.hold(let_go):
        pass
    assert holder.wait() == 0
    holder.stdout.close()
    assert len(said) == 1 and f"process {holder.pid}" in said[0]
    assert lock.waited_s > 0
    with DeviceLock(tmp_path, "cpu-2").hold(said.append):
        assert len(said) == 1


def test_waiting_for_the_device_ends_when_time_is_up(tmp_path):
    left, said = iter([2.0, 1.0, 0.0]), []
    with (
        DeviceLock(tmp_path, "cpu-1").hold(),
        pytest.raises(BusyError, match="resume"),
        DeviceLock(tmp_path, "cpu-1").hold(said.append, left_s=lambda: next(left)),
    ):
        pass
    assert len(said) == 1
    with DeviceLock(tmp_path, "cpu-1").hold(left_s=lambda: 0.0):
        pass  # nobody else has it: there is nothing to wait for
