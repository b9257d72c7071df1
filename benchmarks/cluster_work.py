"""Real work on a Ray cluster of nodes on this machine: builds and verifications against the same without Ray.

    python -m benchmarks.cluster_work [--nodes 3] [--count 6] [--rounds 3] [--out rows.jsonl]

A round builds and verifies `count` C++ kernels of one task, each with a text of its own so that none is known already:
by the evaluators of a cluster (`ray`), by as many evaluators without Ray as there are cores, at the same time and each
on a core of its own (`abreast`), and one after the other by one evaluator without Ray (`alone`). Each evaluator has one
core, and the order turns. `abreast_cpu_share` is the processor time of the work abreast over that of the whole cluster,
Ray's own processes included: the share of what the machine can do that is left where processors are what limits,
whatever else it does. `abreast_wall_share` is the same by the clock, which holds on an idle machine. `cpu_share` and
`wall_share` compare with `alone` and with as many times `alone` as there are cores, which no cores that share caches,
memory and a clock can reach. `evaluators_cpu_s` is without Ray's processes, which take their part of every second, work
or not. A row is a round, and the last line has the medians. The exit code is 1 where one does not verify.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import psutil

from kernelwright.cluster import Cluster, Job
from kernelwright.cluster._actor import Actor
from kernelwright.languages import get_language
from kernelwright.records import Candidate, Evaluation, SourceFile, Task
from kernelwright.search.evaluation.remote import judge_here
from kernelwright.tasks import load_task

from .cluster import machines

Work = Callable[[Sequence[Job]], Iterator[str]]
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "kernel_to_kernel"


def jobs_of(task: Task, count: int) -> list[Job]:
    """Return jobs that build and verify as many kernels, none of which was built before."""
    text, entry = (EXAMPLE / "layernorm.cpp").read_text(), "layernorm.cpp:layernorm"
    asked = {
        "run": "benchmark", "task": task.to_json(), "baselines": ["eager"], "bounds": [], "languages": ["cpp"],
        "toolchains": {"cpp": get_language("cpp").toolchain()}, "verb": "vet", "deadline_s": 600.0,
    }  # fmt: skip
    jobs = []
    for number in range(count):
        source = SourceFile(path="layernorm.cpp", text=f"// {time.time_ns()} {number}\n{text}")
        made = Candidate(sources=(source,), language="cpp", entry=entry, style="destination")
        words = json.dumps({**asked, "candidate": made.to_json()})
        jobs.append(Job(made.key, f"{judge_here.__module__}:judge_here", words))
    return jobs


def used_s(*roots: psutil.Process) -> float:
    """Return the processor time of processes and of all that they started."""
    found = 0.0
    for process in {p for root in roots for p in (root, *root.children(recursive=True))}:
        with suppress(psutil.Error):
            times = process.cpu_times()
            found += times.user + times.system
            found += times.children_user + times.children_system
    return found


def timed(roots: Sequence[psutil.Process], work: Work, jobs: Sequence[Job]) -> dict[str, float]:
    """Do work, and return its times and how many of the kernels were verified."""
    begun_s, cpu_s = time.monotonic(), used_s(*roots)
    right = sum(_verified(answer) for answer in work(jobs))
    return {"wall_s": time.monotonic() - begun_s, "cpu_s": used_s(*roots) - cpu_s, "verified": right}


def _evaluates(process: psutil.Process) -> bool:
    """Tell whether a process is an evaluator; one that has ended is none."""
    with suppress(psutil.Error):
        return "kernelwright.cluster._evaluator" in process.cmdline()
    return False


def _verified(answer: str) -> bool:
    found = Evaluation.from_json(json.loads(answer)["evaluation"])
    return found.verdict is not None and found.verdict.status == "accepted"


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Have what this thread starts run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bare(core: int) -> Actor:
    """Start an evaluator without Ray on a core."""
    with on_core(core):
        return Actor({"cores": 1, "device": "cpu", "name": f"core {core}", "node": "none"}, owner=os.getpid())


def shared_out(evaluators: Sequence[Actor], jobs: Sequence[Job]) -> Iterator[str]:
    """Yield the answers of evaluators that each take the next job when they are done with one."""
    free = SimpleQueue[Actor]()
    for evaluator in evaluators:
        free.put(evaluator)

    def work(job: Job) -> str:
        evaluator = free.get()
        try:
            return evaluator.work(job)[1]
        finally:
            free.put(evaluator)

    with ThreadPoolExecutor(len(evaluators)) as threads:
        yield from threads.map(work, jobs)


def rounds(
    cluster: Cluster, evaluators: Sequence[Actor], task: Task, asked: argparse.Namespace
) -> Iterator[dict[str, float]]:
    """Yield a row for each round; `evaluators` are those without Ray."""
    me = psutil.Process()
    found = [p for p in me.children(recursive=True) if _evaluates(p)]
    theirs, ours = [p for p in found if p.ppid() != me.pid], [p for p in found if p.ppid() == me.pid]

    def together(jobs: Sequence[Job]) -> Iterator[str]:
        return (answer.result() for _, answer in cluster.answers(jobs))

    ways: list[tuple[str, Work]] = [
        ("ray", together), ("abreast", partial(shared_out, evaluators)), ("alone", partial(shared_out, evaluators[:1])),
    ]  # fmt: skip
    for name, work in ways[:2]:
        for answer in work(jobs_of(task, asked.nodes)):
            assert _verified(answer), f"the kernel does not verify ({name}): {answer[:2000]}"
    for number in range(asked.rounds):
        before_s = used_s(*theirs)
        turned = [*ways[number % 3 :], *ways[: number % 3]]
        took = {
            name: timed([me] if name == "ray" else ours, work, jobs_of(task, asked.count))
            for name, work in turned
        }
        yield {
            "count": asked.count, "verified": min(one["verified"] for one in took.values()),
            "evaluators_cpu_s": used_s(*theirs) - before_s, **shares(took, len(evaluators)),
            **{f"{name}_{what}": took[name][what] for name in took for what in ("cpu_s", "wall_s")},
        }  # fmt: skip


def shares(took: dict[str, dict[str, float]], at_once: int) -> dict[str, float]:
    """Return what the cluster's times are of those without Ray.

    Example:
        >>> times = {"ray": (11.0, 5.5), "abreast": (10.0, 5.0), "alone": (9.0, 9.0)}
        >>> shares({name: {"cpu_s": cpu, "wall_s": wall} for name, (cpu, wall) in times.items()}, 2)["cpu_share"]
        0.818
    """
    ray, abreast, alone = took["ray"], took["abreast"], took["alone"]
    found = {
        "abreast_cpu_share": abreast["cpu_s"] / ray["cpu_s"],
        "abreast_wall_share": abreast["wall_s"] / ray["wall_s"],
        "cpu_share": alone["cpu_s"] / ray["cpu_s"],
        "wall_share": alone["wall_s"] / at_once / ray["wall_s"],
    }
    return {name: round(share, 3) for name, share in found.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all rounds and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    task, rows = load_task(str(EXAMPLE), max_elements=100_000), []
    with machines(asked.nodes) as nodes, Cluster(nodes.address, device="cpu") as cluster:
        cluster.wait(asked.nodes)
        evaluators = [bare(core) for core in sorted(os.sched_getaffinity(0))[: asked.nodes]]
        for row in rounds(cluster, evaluators, task, asked):
            rows.append(row)
            line = json.dumps({"what": "work", "nodes": asked.nodes, "load": os.getloadavg()[0], **row})
            print(line, flush=True)
            if asked.out:
                with asked.out.open("a") as out:
                    out.write(line + "\n")
    print({name: round(median(row[name] for row in rows), 3) for name in rows[0] if name.endswith("_share")})
    return int(any(row["verified"] < asked.count for row in rows))


if __name__ == "__main__":
    sys.exit(main())
