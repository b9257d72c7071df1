"""Real work on a Ray cluster of nodes on this machine: builds and verifications against the same without Ray.

    python -m benchmarks.cluster_work [--nodes 3] [--count 6] [--rounds 3] [--out rows.jsonl]

A round builds and verifies `count` C++ kernels of one task, each with a text of its own so that none is known already:
by the evaluators of a cluster, and one after the other by an evaluator without Ray. Each evaluator has one core, and
the order alternates. `cpu_share` is the processor time of the work without Ray over that of the whole cluster, Ray's
own processes included: the share of the ideal throughput that is left where processors are what limits, whatever else
the machine does. `evaluators_cpu_s` is without Ray's processes, which take their part of every second, work or not.
`wall_share` is the same by the clock, where the ideal is what can run at once; it holds on an idle machine. A row is a
round, and the last line has the medians. The exit code is 1 where one does not verify.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil

from kernelwright.cluster import Cluster, Job
from kernelwright.cluster._actor import Actor
from kernelwright.languages import get_language
from kernelwright.records import Candidate, Evaluation, SourceFile, Task
from kernelwright.search.evaluation.remote import judge_here
from kernelwright.tasks import load_task

from .cluster import machines

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


def timed(
    root: psutil.Process, work: Callable[[Sequence[Job]], Iterator[str]], jobs: Sequence[Job]
) -> dict[str, float]:
    """Do work, and return its times and how many of the kernels were verified."""
    begun_s, cpu_s = time.monotonic(), used_s(root)
    right = sum(_verified(answer) for answer in work(jobs))
    return {"wall_s": time.monotonic() - begun_s, "cpu_s": used_s(root) - cpu_s, "verified": right}


def _verified(answer: str) -> bool:
    found = Evaluation.from_json(json.loads(answer)["evaluation"])
    return found.verdict is not None and found.verdict.status == "accepted"


def rounds(
    cluster: Cluster, alone: Actor, task: Task, asked: argparse.Namespace
) -> Iterator[dict[str, float]]:
    """Yield a row for each round."""
    me = psutil.Process()
    evaluators = [p for p in me.children(recursive=True) if "kernelwright.cluster._evaluator" in p.cmdline()]
    single = next(p for p in evaluators if p.ppid() == me.pid)
    theirs = [p for p in evaluators if p != single]
    at_once = min(asked.nodes, len(os.sched_getaffinity(0)))

    def together(jobs: Sequence[Job]) -> Iterator[str]:
        return (answer.result() for _, answer in cluster.answers(jobs))

    def one_by_one(jobs: Sequence[Job]) -> Iterator[str]:
        return (alone.work(job)[1] for job in jobs)

    for warmed in (together(jobs_of(task, asked.nodes)), one_by_one(jobs_of(task, 1))):
        for answer in warmed:
            assert _verified(answer), f"the kernel does not verify: {answer[:2000]}"
    for number in range(asked.rounds):
        order = [("ray", me, together), ("alone", single, one_by_one)]
        before_s = used_s(*theirs)
        found = {
            name: timed(root, work, jobs_of(task, asked.count))
            for name, root, work in (order if number % 2 else reversed(order))
        }
        ray, bare = found["ray"], found["alone"]
        yield {
            "count": asked.count, "verified": min(ray["verified"], bare["verified"]),
            "evaluators_cpu_s": used_s(*theirs) - before_s,
            "cpu_share": bare["cpu_s"] / ray["cpu_s"], "wall_share": bare["wall_s"] / at_once / ray["wall_s"],
            **{f"{name}_{what}": found[name][what] for name in found for what in ("cpu_s", "wall_s")},
        }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure all rounds and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    task, rows = load_task(str(EXAMPLE), max_elements=100_000), []
    place = {"cores": 1, "device": "cpu", "name": "alone", "node": "none"}
    with machines(asked.nodes) as nodes, Cluster(nodes.address, device="cpu") as cluster:
        cluster.wait(asked.nodes)
        for row in rounds(cluster, Actor(place, owner=os.getpid()), task, asked):
            rows.append(row)
            line = json.dumps({"what": "work", "nodes": asked.nodes, "load": os.getloadavg()[0], **row})
            print(line, flush=True)
            if asked.out:
                with asked.out.open("a") as out:
                    out.write(line + "\n")
    print({share: round(median(row[share] for row in rows), 3) for share in ("cpu_share", "wall_share")})
    return int(any(row["verified"] < asked.count for row in rows))


if __name__ == "__main__":
    sys.exit(main())
