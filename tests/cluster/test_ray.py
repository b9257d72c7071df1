"""Three Ray nodes on this machine: work is done as without them, whatever dies."""

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
import pytest
from benchmarks.cluster import NAME, Machines, machines
from benchmarks.cluster_faults import faults
from tests.tools import require

from kernelwright.cluster import Cluster, Job
from kernelwright.errors import ClusterError
from kernelwright.flow import optimize
from kernelwright.records import Budget
from kernelwright.store import Store
from kernelwright.suites import Journal, get_suite, judge_all, judge_on, read_rows, setup
from kernelwright.testing import made_up_checkout

require("ray")
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
]
KERNEL = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {body}
"""
JUDGE = (
    "suite", "judge", "kernelbench", "{kernels}", "--data", "{data}", "--screen", "--device", "cpu",
    "--store", "{store}", "--to", "{rows}", "--cluster", "{address}",
)  # fmt: skip


@pytest.fixture(scope="module")
def nodes():
    with machines(3) as found:
        yield found


@pytest.fixture
def checkout(tmp_path):
    data, kernels = made_up_checkout("kernelbench", tmp_path / "checkout"), tmp_path / "kernels"
    kernels.mkdir()
    suite = get_suite("kernelbench")
    bodies = {"1_Softmax": "torch.softmax(x, 1)", "2_Max_Subtract": "torch.zeros_like(x)"}
    found = {}
    for problem in suite.problems(data):
        short = problem.name.rpartition("/")[2]
        if short in bodies:
            path = kernels / f"{problem.name.replace('/', '_')}.py"
            path.write_text(KERNEL.format(body=bodies[short]))
            found[problem.name] = path
    return suite, data, found


def essence(row):
    return row.problem, row.candidate, row.theirs.status, row.ours.verdict, row.ours.failed, row.sizes


def test_verdicts_are_those_without_a_cluster(nodes: Machines, checkout, tmp_path):
    suite, data, kernels = checkout
    problems = suite.problems(data)
    with setup(suite, data, store=tmp_path / "store", device="cpu", screen=True) as given:
        alone = list(judge_all(given, problems, kernels))
        with Cluster(nodes.address, device="cpu") as cluster:
            together = list(judge_on(cluster, given, problems, kernels, Journal(tmp_path / "rows.jsonl")))
    assert sorted(map(essence, together)) == sorted(map(essence, alone)) and len(alone) == len(kernels) > 0
    assert all(row.device and "cores" in row.place for row in together)
    with Store(tmp_path / "store") as store:
        assert {r.ours.run for r in (*alone, *together)} == {run.id for run in store.runs()}


def test_a_driver_that_is_killed_goes_on_where_it_was(nodes: Machines, checkout, tmp_path):
    _, data, kernels = checkout
    given = {"kernels": next(iter(kernels.values())).parent, "data": data, "store": tmp_path / "store"}
    rows = tmp_path / "rows.jsonl"
    words = [w.format(**given, rows=rows, address=nodes.address) for w in JUDGE]
    command = [sys.executable, "-m", "kernelwright", *words]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path.cwd())
    end = time.monotonic() + 300
    while not read_rows(rows) and first.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    first.kill()
    first.wait()
    begun = read_rows(rows)
    subprocess.run(command, check=True, timeout=500, capture_output=True)
    assert begun and read_rows(rows)[: len(begun)] == begun and len(read_rows(rows)) == len(kernels)
    with Store(tmp_path / "store") as store:
        assert len(store.runs()) == len(kernels)


def test_a_slow_node_gets_fewer_jobs_and_holds_nobody_up(nodes: Machines):
    with Cluster(nodes.address, device="cpu") as cluster:
        cluster.wait(3)
        slow = next(
            p for p in psutil.Process().children(recursive=True) if _is(p, "kernelwright.cluster._evaluator")
        )
        for _, answer in cluster.answers([Job(f"w{n}", f"{NAME}:sleep", "0.2") for n in range(6)]):
            answer.result()  # the first job of each imports torch
        slow.suspend()
        waking = threading.Timer(120, slow.resume)
        waking.start()
        try:
            jobs = [Job(f"s{n}", f"{NAME}:sleep", "0.2") for n in range(20)]
            answers = iter(cluster.answers(jobs))
            others = [job.key for job, answer in islice(answers, 19) if answer.result()]
            held_up = not waking.is_alive()
        finally:
            waking.cancel()
            with suppress(psutil.Error):
                slow.resume()
        last = [job.key for job, answer in answers if answer.result()]
    assert not held_up, "all but the one that it holds are done before it goes on"
    assert sorted((*others, *last)) == sorted(job.key for job in jobs)


def test_nothing_is_lost_or_doubled_whatever_dies(nodes: Machines, tmp_path):
    found = faults(nodes, tmp_path, count=15, heads=1)
    assert found["lost"] == found["doubled"] == 0 and found["same_decisions"]
    assert found["counted"] == found["evaluations"] and found["faults"] >= 14
    assert set(found["kinds"]) == {"evaluator", "worker", "driver", "owner", "slow", "node", "full", "head"}


def test_an_evaluator_has_the_niceness_of_its_node(nodes: Machines):
    with Cluster(nodes.address, device="cpu") as cluster:
        (place, *_) = cluster.wait()
        found = int(cluster.submit(Job("niceness", f"{NAME}:niceness")).result())
    assert place.behind or found == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_search_on_nodes_evaluates_within_its_minutes(nodes: Machines, tmp_path):
    with Cluster(nodes.address, device="cpu") as cluster:
        result = optimize(
            "examples/swiglu.py", budget=Budget(evaluations=2, minutes=10), max_elements=100_000,
            proposers=("library",), store=tmp_path / "store", cluster=cluster,
        )  # fmt: skip
    with Store(tmp_path / "store") as store:
        found = store.evaluations(result.run)
    assert len(found) == 2 and any(e.decision.speedup for e in found), result.reason


def test_no_cluster_at_an_address_is_a_sentence():
    with (
        Cluster("127.0.0.1:1", device="cpu") as cluster,
        pytest.raises(ClusterError, match=r"nothing answers at 127\.0\.0\.1:1"),
    ):
        cluster.wait()


def test_evaluators_end_with_their_owner(nodes: Machines):
    with Cluster(nodes.address, device="cpu") as cluster:
        cluster.wait(3)
        pid = int(cluster.submit(Job("pid", f"{NAME}:process")).result())
    end = time.monotonic() + 60
    while psutil.pid_exists(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not psutil.pid_exists(pid)


def _is(process, module):
    with suppress(psutil.Error):
        return module in process.cmdline()
    return False
