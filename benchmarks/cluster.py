"""A Ray cluster of nodes on this machine: what it costs, what it gains, and whether anything is lost when it breaks.

    python -m benchmarks.cluster overhead [--count 200] [--out rows.jsonl]
    python -m benchmarks.cluster throughput [--nodes 3] [--seconds 0.2]
    python -m benchmarks.cluster faults [--count 100] [--heads 2] [--seed 0]

`overhead` is the time of a job that does nothing. `throughput` is that of jobs that sleep, as evaluations on other
machines do, and of jobs that compute, which the cores of this machine limit; `ideal` is their whole work over what can
run at once. `faults` evaluates planted candidates while evaluators, workers, nodes, the driver and the head are killed,
evaluators stop for a while, and the object store is filled; each evaluation must be in the store once, with the
decision that it has without a cluster. The exit code is 1 if one is not.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

NAME = "benchmarks.cluster"
_STORE_BYTES = 80 << 20
_STARTS = 5
_ANSWER_CHARACTERS = 200_000
"""Longer than what Ray sends without its object store."""
_FILL = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
kept = [ray.put(bytes(9 << 20)) for _ in range(12)]
time.sleep(float(sys.argv[2]))
"""


class Machines:
    """A head and further nodes, all on this machine."""

    def __init__(self, count: int) -> None:
        from ray.cluster_utils import Cluster as Nodes

        self._nodes = Nodes()
        self._count = count
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        """The head's address."""
        return str(self._nodes.address)

    def start(self) -> None:
        """Start what is not running; the head where it was."""
        if self._nodes.head_node is None:
            self._add(include_dashboard=False, **({"gcs_server_port": self._port} if self._port else {}))
            self._port = int(self.address.rpartition(":")[2])
        while len(self._nodes.list_all_nodes()) < self._count:
            self._add()

    def _add(self, **more: object) -> None:
        """Start a node; on a busy machine Ray's own deadlines pass now and then."""
        for attempt in range(_STARTS):
            try:
                self._nodes.add_node(object_store_memory=_STORE_BYTES, num_cpus=1, **more)
                return
            except Exception:  # Ray raises errors of several kinds where a node did not start in time
                if attempt == _STARTS - 1:
                    raise
                time.sleep(2)

    def kill_node(self, dice: random.Random) -> None:
        """Kill a node at once, with everything on it, and start another."""
        self._nodes.remove_node(dice.choice(list(self._nodes.worker_nodes)), allow_graceful=False)
        self.start()

    def kill_head(self) -> None:
        """Kill the head, which takes the cluster with it, and start all again at the same address."""
        self._nodes.remove_node(self._nodes.head_node, allow_graceful=False)
        for node in list(self._nodes.worker_nodes):
            self._nodes.remove_node(node, allow_graceful=False)
        self.start()

    def close(self) -> None:
        """Stop everything."""
        self._nodes.shutdown()


@contextmanager
def machines(count: int) -> Iterator[Machines]:
    """Run nodes on this machine that find this module."""
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "2"}  # Ray's 15 starves what starts
    found = Machines(count)
    try:
        yield found
    finally:
        found.close()
        os.environ.pop("PYTHONPATH")
        if path is not None:
            os.environ["PYTHONPATH"] = path


def nothing(text: str, here: Workplace) -> str:
    """Answer at once."""
    del here
    return text


def process(text: str, here: Workplace) -> str:
    """Name the evaluator's process."""
    del text, here
    return str(os.getpid())


def niceness(text: str, here: Workplace) -> str:
    """Return the niceness of the evaluator's process."""
    del text, here
    return str(os.getpriority(os.PRIO_PROCESS, 0))


def sleep(text: str, here: Workplace) -> str:
    """Take so many seconds and no core."""
    del here
    time.sleep(float(text))
    return text


def compute(text: str, here: Workplace) -> str:
    """Take so many seconds of a core."""
    del here
    end = time.thread_time() + float(text)
    while time.thread_time() < end:
        sum(range(1000))
    return text


def evaluate(text: str, here: Workplace) -> str:
    """Evaluate a planted candidate: its source says its speed."""
    asked = json.loads(text)
    time.sleep(asked["seconds"])
    evaluation = planted(asked["speed"])
    with Path(asked["log"]).open("a") as log:
        log.write(f"{evaluation.candidate.key} {here.place.device.fingerprint}\n")
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


def overhead(cluster: Cluster, count: int) -> dict[str, float]:
    """Return the milliseconds of jobs that do nothing, one at a time."""
    times = []
    for number in range(count + 10):
        begun = time.perf_counter()
        cluster.submit(Job(f"nothing {number}", f"{NAME}:nothing")).result()
        times.append((time.perf_counter() - begun) * 1e3)
    times = sorted(times[10:])
    return {"median_ms": times[count // 2], "p90_ms": times[count * 9 // 10], "least_ms": times[0]}


def throughput(cluster: Cluster, function: str, seconds: float, count: int, at_once: int) -> dict[str, float]:
    """Return the share of the ideal throughput that jobs of one length reach, once each evaluator has done one."""
    for _, answer in cluster.answers(
        [Job(f"warm {function} {n}", f"{NAME}:sleep", "1") for n in range(2 * at_once)]
    ):
        answer.result()
    begun = time.perf_counter()
    jobs = [Job(f"{function} {n}", f"{NAME}:{function}", str(seconds)) for n in range(count)]
    for _, answer in cluster.answers(jobs):
        answer.result()
    took_s = time.perf_counter() - begun
    return {
        "seconds": took_s,
        "ideal": seconds * count / at_once,
        "share": seconds * count / at_once / took_s,
    }


class Faults:
    """Injects faults of every kind, in a random order that the seed decides."""

    def __init__(self, nodes: Machines, count: int, heads: int, seed: int) -> None:
        self._nodes, self._dice = nodes, random.Random(seed)
        kinds: dict[str, Callable[[], None]] = {
            "evaluator": lambda: self._signal("_evaluator", signal.SIGKILL),
            "worker": self._kill_worker,
            "driver": lambda: self._signal("_driver", signal.SIGKILL),
            "slow": self._slow,
            "node": lambda: nodes.kill_node(self._dice),
            "full": self._fill,
        }
        names = [list(kinds)[n % len(kinds)] for n in range(count - heads)] + ["head"] * heads
        self._dice.shuffle(names)
        self._kinds, self._left = {**kinds, "head": nodes.kill_head}, names
        self.injected: Counter[str] = Counter()

    def run(self) -> None:
        """Inject all of them, one after the other, while there is work."""
        while self._left:
            kind = self._left.pop()
            with suppress(psutil.Error):
                self._kinds[kind]()
                self.injected[kind] += 1
                print(f"{sum(self.injected.values())}: {kind}", file=sys.stderr, flush=True)
            time.sleep(self._dice.uniform(0.2, 1.5))

    def _found(self, module: str) -> list[psutil.Process]:
        mine = psutil.Process().children(recursive=True)
        found = []
        for process in mine:
            with suppress(psutil.Error):
                if f"kernelwright.cluster.{module}" in process.cmdline():
                    found.append(process)
        return found

    def _signal(self, module: str, number: int) -> None:
        self._chosen(module).send_signal(number)

    def _chosen(self, module: str) -> psutil.Process:
        end = time.monotonic() + 120
        while not (found := self._found(module)):
            if time.monotonic() > end:
                raise TimeoutError(f"no process of {module} came")
            time.sleep(0.1)
        return self._dice.choice(found)

    def _kill_worker(self) -> None:
        worker = self._chosen("_evaluator").parent()
        if worker is not None and worker.pid != os.getpid():
            worker.kill()

    def _slow(self) -> None:
        process = self._chosen("_evaluator")
        process.suspend()
        time.sleep(1)
        process.resume()

    def _fill(self) -> None:
        command = [sys.executable, "-c", _FILL, self._nodes.address, "2"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, timeout=30, capture_output=True, check=False)


def faults(nodes: Machines, folder: Path, count: int, heads: int, seed: int = 0) -> dict[str, Any]:
    """Evaluate candidates until all faults were injected, and compare the store with what should be there."""
    log, events, speeds = folder / "log", Counter[str](), list[float]()
    answers, over = Counter[str](), threading.Event()

    def jobs() -> Iterator[Job]:
        """Go on as long as there are faults; a few big answers among the small ones."""
        while not over.is_set() or len(speeds) < 20:
            speeds.append(0.5 + len(speeds) / 64)
            padding = _ANSWER_CHARACTERS if len(speeds) % 5 == 0 else 0
            asked = {"speed": speeds[-1], "seconds": 0.1, "log": str(log), "padding": padding}
            yield Job(planted(speeds[-1]).candidate.key, f"{NAME}:evaluate", json.dumps(asked))

    def follow(event: Event) -> None:
        events[event.kind] += 1

    task = load_task(str(Path(__file__).resolve().parents[1] / "examples" / "swiglu.py"))
    with Store(folder / "store") as store, Cluster(nodes.address, device="cpu", on_event=follow) as cluster:
        place = cluster.wait()[0]
        run = store.create_run(task, device=place.device.fingerprint, budget=Budget(), seed=0)

        def write() -> None:
            """Be the one that writes."""
            for job, answer in cluster.answers(jobs()):
                answers[job.key] += 1
                found = Evaluation.from_json(json.loads(answer.result())["evaluation"])
                key = EvaluationKey(job.key, task.key, run.device, "planted", "planted")
                store.save_evaluation(run.id, key, found, elapsed_s=0.0)

        breaking = Faults(nodes, count, heads, seed)
        writing = threading.Thread(target=write)
        writing.start()
        try:
            breaking.run()
        finally:
            over.set()
        writing.join()
        kept, spent = store.evaluations(run.id), store.spent(run.id)
    expected = {planted(speed).candidate.key: planted(speed).decision for speed in speeds}
    alike = {e.candidate.key: e.decision for e in kept} == expected
    made = Counter(line.split()[0] for line in log.read_text().splitlines())
    return {
        "faults": sum(breaking.injected.values()), "kinds": dict(breaking.injected), "evaluations": len(speeds),
        "lost": len(expected.keys() - {e.candidate.key for e in kept}), "counted": spent.evaluations,
        "doubled": sum(n - 1 for n in answers.values()) + spent.evaluations - len(expected),
        "same_decisions": alike, "made_again": sum(n - 1 for n in made.values()), "events": dict(events),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=("overhead", "throughput", "faults"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, machines(asked.nodes) as nodes:
        if asked.what == "faults":
            rows.append(faults(nodes, Path(folder), asked.count or 100, asked.heads, asked.seed))
        else:
            with Cluster(nodes.address, device="cpu") as cluster:
                cluster.wait(asked.nodes)
                if asked.what == "overhead":
                    rows.append(overhead(cluster, asked.count or 200))
                else:
                    cores = min(asked.nodes, len(os.sched_getaffinity(0)))
                    for function, at_once in (("sleep", asked.nodes), ("compute", cores)):
                        found = throughput(cluster, function, asked.seconds, asked.count or 120, at_once)
                        rows.append({"jobs": function, "at_once": at_once, **found})
    for row in rows:
        print(
            line := json.dumps({"what": asked.what, "nodes": asked.nodes, "load": os.getloadavg()[0], **row})
        )
        if asked.out:
            with asked.out.open("a") as out:
                out.write(line + "\n")
    broken = [r for r in rows if r.get("lost") or r.get("doubled") or not r.get("same_decisions", True)]
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())
