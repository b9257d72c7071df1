"""A Ray cluster of nodes on this machine while it breaks: whether an evaluation is lost, doubled or decided otherwise.

    python -m benchmarks.cluster_faults [--count 100] [--heads 2] [--nodes 3] [--seed 0] [--out rows.jsonl]

Candidates are planted: an evaluation sleeps a tenth of a second and has a decision that follows from the source. The
faults are real. Killed at once are evaluators, Ray's workers, nodes with all that is on them, the Ray driver, the head
with the whole cluster, and the *owner*, the process whose store it is, which is started again by the same command. An
evaluator stops for a second (`slow`), and another program fills the object store (`full`). Each evaluation must then
be in the store once, with the decision that it has without a cluster. The exit code is 1 if one is not.

    python -m benchmarks.cluster_faults --own FOLDER ADDRESS

is the owner: it goes on with what its store lacks until FOLDER has a file `over`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from kernelwright.cluster import Cluster, Event, Job, Workplace
from kernelwright.records import (
    Budget,
    Build,
    BuildStatus,
    Candidate,
    Decision,
    DecisionStatus,
    Evaluation,
    Interval,
    SourceFile,
)
from kernelwright.store import EvaluationKey, Store
from kernelwright.tasks import load_task

from .cluster import Machines, machines

NAME = "benchmarks.cluster_faults"
_ANSWER_CHARACTERS = 200_000
"""Longer than what Ray sends without its object store."""
_LEAST = 20
_COMING_S = 600.0
"""How long a process to kill may take to come: on a busy machine an evaluator starts for minutes."""
_FILL = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
kept = [ray.put(bytes(9 << 20)) for _ in range(12)]
time.sleep(float(sys.argv[2]))
"""


def evaluate(text: str, here: Workplace) -> str:
    """Evaluate a planted candidate: its source says its speed."""
    asked = json.loads(text)
    time.sleep(asked["seconds"])
    evaluation = planted(asked["speed"])
    _append(Path(asked["log"]), f"{evaluation.candidate.key} {here.place.device.fingerprint}")
    return json.dumps({"evaluation": evaluation.to_json(), "padding": "x" * asked["padding"]})


def planted(speed: float) -> Evaluation:
    """Return the evaluation that a candidate of this speed has wherever it is made."""
    source = SourceFile(path="planted.txt", text=f"{speed}")
    candidate = Candidate(sources=(source,), language="planted", entry="planted.txt:run")
    faster = speed > 1
    decision = Decision(
        candidate=candidate.key, status=DecisionStatus.IMPROVED if faster else DecisionStatus.SLOWER, reason="planted",
        speedup=Interval(median=speed, low=speed * 0.99, high=speed * 1.01), time_us=100 / speed,
    )  # fmt: skip
    return Evaluation(
        candidate=candidate, build=Build(status=BuildStatus.OK), decision=decision, device_s=1.0
    )


def speed_of(number: int) -> float:
    """Return the speed of a candidate by its number."""
    return 0.5 + number / 64


def own(folder: Path, address: str) -> None:
    """Evaluate what the store lacks until `over` is there, then say how many candidates there were."""
    task = load_task(str(Path(__file__).resolve().parents[1] / "examples" / "swiglu.py"))
    over, given = folder / "over", 0

    def follow(event: Event) -> None:
        _append(folder / "events", event.kind)

    with Store(folder / "store") as store, Cluster(address, device="cpu", on_event=follow) as cluster:
        device = cluster.wait()[0].device.fingerprint
        run = next(iter(store.runs()), None) or store.create_run(task, device=device, budget=Budget(), seed=0)
        known = {e.candidate.key for e in store.evaluations(run.id)}
        unseen = set(known)

        def jobs() -> Iterator[Job]:
            """Go on as long as there are faults; a few big answers among the small ones."""
            nonlocal given
            while not over.exists() or given < _LEAST or unseen:
                speed, padding = speed_of(given), 0 if given % 5 else _ANSWER_CHARACTERS
                given += 1
                key = planted(speed).candidate.key
                unseen.discard(key)
                asked = {"speed": speed, "seconds": 0.1, "log": str(folder / "log"), "padding": padding}
                if key not in known:
                    yield Job(key, f"{NAME}:evaluate", json.dumps(asked))

        for job, answer in cluster.answers(jobs()):
            _append(folder / "answers", f"{os.getpid()} {job.key}")
            found = Evaluation.from_json(json.loads(answer.result())["evaluation"])
            key = EvaluationKey(job.key, task.key, run.device, "planted", "planted")
            store.save_evaluation(run.id, key, found, elapsed_s=0.0)
    (folder / "given").write_text(str(given))


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


class Faults:
    """Injects faults of every kind, in a random order that the seed decides."""

    def __init__(self, nodes: Machines, folder: Path, count: int, heads: int, seed: int) -> None:
        self._nodes, self._folder, self._dice = nodes, folder, random.Random(seed)
        kinds: dict[str, Callable[[], None]] = {
            "evaluator": lambda: self._chosen("_evaluator").kill(),
            "worker": self._kill_worker,
            "driver": lambda: self._chosen("_driver").kill(),
            "owner": self._kill_owner,
            "slow": self._slow,
            "node": lambda: nodes.kill_node(self._dice),
            "full": self._fill,
        }
        names = [list(kinds)[n % len(kinds)] for n in range(count - heads)] + ["head"] * heads
        self._dice.shuffle(names)
        self._kinds, self._left = {**kinds, "head": nodes.kill_head}, names
        self.injected: Counter[str] = Counter()
        self._owner = self._started()

    def run(self) -> None:
        """Inject all of them, one after the other, while there is work; then let the owner end."""
        try:
            self._break()
        except BaseException:
            self._owner.kill()
            raise
        (self._folder / "over").touch()
        if code := self._owner.wait():
            raise RuntimeError(f"the owner ended with exit code {code}")

    def _break(self) -> None:
        while self._left:
            kind = self._left.pop()
            with suppress(psutil.Error):  # it ended by itself, and no fault was injected
                self._kinds[kind]()
                self.injected[kind] += 1
                print(f"{sum(self.injected.values())}: {kind}", file=sys.stderr, flush=True)
            time.sleep(self._dice.uniform(0.2, 1.5))

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", NAME, "--own", str(self._folder), self._nodes.address]
        return subprocess.Popen(command)

    def _kill_owner(self) -> None:
        self._owner.send_signal(signal.SIGKILL)
        self._owner.wait()
        self._owner = self._started()

    def _found(self, module: str) -> list[psutil.Process]:
        found = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if f"kernelwright.cluster.{module}" in process.cmdline():
                    found.append(process)
        return found

    def _chosen(self, module: str) -> psutil.Process:
        end = time.monotonic() + _COMING_S
        while not (found := self._found(module)):
            if time.monotonic() > end:
                raise TimeoutError(f"no process of {module} came")
            time.sleep(0.1)
        return self._dice.choice(found)

    def _kill_worker(self) -> None:
        worker = self._chosen("_evaluator").parent()
        if worker is None or worker.pid == os.getpid():
            raise psutil.NoSuchProcess(0)
        worker.kill()

    def _slow(self) -> None:
        process = self._chosen("_evaluator")
        process.suspend()
        time.sleep(1)
        process.resume()

    def _fill(self) -> None:
        command = [sys.executable, "-c", _FILL, self._nodes.address, "2"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=60, capture_output=True, check=False)


def faults(nodes: Machines, folder: Path, count: int, heads: int, seed: int = 0) -> dict[str, Any]:
    """Evaluate candidates until all faults were injected, and compare the store with what should be there."""
    breaking = Faults(nodes, folder, count, heads, seed)
    breaking.run()
    with Store(folder / "store") as store:
        (run,) = store.runs()
        kept, spent = store.evaluations(run.id), store.spent(run.id)
    speeds = [speed_of(n) for n in range(int((folder / "given").read_text()))]
    expected = {planted(speed).candidate.key: planted(speed).decision for speed in speeds}
    answers, made = (
        Counter(_lines(folder / "answers")),
        Counter(line.split()[0] for line in _lines(folder / "log")),
    )
    return {
        "faults": sum(breaking.injected.values()), "kinds": dict(breaking.injected), "evaluations": len(speeds),
        "lost": len(expected.keys() - {e.candidate.key for e in kept}), "counted": spent.evaluations,
        "doubled": sum(n - 1 for n in answers.values()) + spent.evaluations - len(expected),
        "same_decisions": {e.candidate.key: e.decision for e in kept} == expected,
        "made_again": sum(n - 1 for n in made.values()), "events": dict(Counter(_lines(folder / "events"))),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Break a cluster, or own what is evaluated on it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--own", nargs=2, metavar=("FOLDER", "ADDRESS"))
    asked = parser.parse_args(argv)
    if asked.own:
        own(Path(asked.own[0]), asked.own[1])
        return 0
    with tempfile.TemporaryDirectory() as folder, machines(asked.nodes) as nodes:
        row = faults(nodes, Path(folder), asked.count, asked.heads, asked.seed)
    print(line := json.dumps({"what": "faults", "nodes": asked.nodes, "load": os.getloadavg()[0], **row}))
    if asked.out:
        with asked.out.open("a") as out:
            out.write(line + "\n")
    return int(bool(row["lost"] or row["doubled"] or not row["same_decisions"]))


if __name__ == "__main__":
    raise SystemExit(main())
