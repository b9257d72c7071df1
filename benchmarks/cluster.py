"""A Ray cluster of nodes on this machine: what it costs and what it gains.

    python -m benchmarks.cluster overhead [--count 200] [--out rows.jsonl]
    python -m benchmarks.cluster throughput [--nodes 3] [--seconds 0.2]
    python -m benchmarks.cluster idle [--nodes 3] [--seconds 40]

`overhead` is the time of a job that does nothing, with what each process ran and waited for a processor during one, as
the Linux scheduler counts it; what Ray does every second anyway is in it. `throughput` is that of jobs that sleep, as
evaluations on other machines do, and of jobs that compute, which the cores of this machine limit; `ideal` is their
whole work over what can run at once. `idle` is what each kind of process takes of a core while no job is there, and
is lost to work. `benchmarks.cluster_faults` breaks such a cluster.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from kernelwright.cluster import Cluster, Job, Workplace

NAME = "benchmarks.cluster"
_STORE_BYTES = 80 << 20
_STARTS = 10
_WARM = 10
_SETTLING_S = 10.0
"""How long what Ray starts next to a node takes until it has nothing more to do."""


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
            self._add(
                include_dashboard=False, include_log_monitor=False,
                **({"gcs_server_port": self._port} if self._port else {}),
            )  # fmt: skip
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
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0", "RAY_memory_monitor_refresh_ms": "1000",
        "RAY_worker_niceness": "2",  # Ray's 15 starves what starts
    }  # fmt: skip
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


def overhead(cluster: Cluster, count: int) -> dict[str, Any]:
    """Return the milliseconds of jobs that do nothing, one at a time, and what processes ran and waited meanwhile."""
    times, before = list[float](), dict[str, tuple[float, float]]()
    for number in range(_WARM + count):
        if number == _WARM:
            before = scheduled()
        begun = time.perf_counter()
        cluster.submit(Job(f"nothing {number}", f"{NAME}:nothing")).result()
        times.append((time.perf_counter() - begun) * 1e3)
    after, times = scheduled(), sorted(times[_WARM:])
    each = {
        name: [round((now - then) / count, 3) for now, then in zip(after[name], before[name], strict=True)]
        for name in before.keys() & after.keys()
    }
    return {
        "median_ms": times[count // 2], "p90_ms": times[count * 9 // 10], "least_ms": times[0],
        "cpu_ms": {name: ran for name, (ran, _) in each.items()},
        "waited_ms": {name: waited for name, (_, waited) in each.items()},
    }  # fmt: skip


def scheduled() -> dict[str, tuple[float, float]]:
    """Return the milliseconds that processes ran, and that they could have run and no processor was free, by role."""
    found: dict[str, tuple[float, float]] = {}
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.Error, OSError):
            role = _role(process)
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                ran, waited, _ = map(float, (thread / "schedstat").read_text().split())
                all_ran, all_waited = found.get(role, (0.0, 0.0))
                found[role] = all_ran + ran / 1e6, all_waited + waited / 1e6
    return found


def idle(seconds: float) -> dict[str, Any]:
    """Return the share of a core that processes take while there is nothing to do, by role, once all have started."""
    time.sleep(_SETTLING_S)
    before, begun = scheduled(), time.monotonic()
    time.sleep(seconds)
    after, took_ms = scheduled(), (time.monotonic() - begun) * 1e3
    ran = {name: after[name][0] - before.get(name, (0.0, 0.0))[0] for name in after}
    return {
        "seconds": seconds, "of_a_core": {name: round(ms / took_ms, 4) for name, ms in ran.items()},
        "all": round(sum(ran.values()) / took_ms, 4),
    }  # fmt: skip


def _role(process: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    if process.pid == os.getpid():
        return "this process"
    for role in ("_driver", "_evaluator"):
        if f"kernelwright.cluster.{role}" in words:
            return role.lstrip("_")
    return "actor" if words.startswith("ray::Actor") else "Ray's services"


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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=("overhead", "throughput", "idle"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    with machines(asked.nodes) as nodes, Cluster(nodes.address, device="cpu") as cluster:
        cluster.wait(asked.nodes)
        if asked.what == "overhead":
            rows.append(overhead(cluster, asked.count or 200))
        elif asked.what == "idle":
            rows.append(idle(asked.seconds or 40.0))
        else:
            cores = min(asked.nodes, len(os.sched_getaffinity(0)))
            for function, at_once in (("sleep", asked.nodes), ("compute", cores)):
                found = throughput(cluster, function, asked.seconds or 0.2, asked.count or 120, at_once)
                rows.append({"jobs": function, "at_once": at_once, **found})
    for row in rows:
        print(
            line := json.dumps({"what": asked.what, "nodes": asked.nodes, "load": os.getloadavg()[0], **row})
        )
        if asked.out:
            with asked.out.open("a") as out:
                out.write(line + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
