"""A benchmark on a cluster: rows and runs come back once, and a node that was lost goes on where it was."""

from concurrent.futures import Future
from importlib import import_module

import pytest

from kernelwright.cli import main
from kernelwright.cluster import JobFailed, Place, Workplace
from kernelwright.cluster._files import name_of, pack, unpacked
from kernelwright.devices import detect
from kernelwright.flow import Event
from kernelwright.records import Budget
from kernelwright.store import Store
from kernelwright.suites import (
    Journal,
    Searching,
    _cluster,
    _search,
    changes,
    get_suite,
    judge_on,
    read_rows,
    search_all,
    search_on,
    setup,
)
from kernelwright.tasks import load_task
from kernelwright.testing import made_up_checkout


class InThisProcess:
    """A cluster of one evaluator, which is this process; jobs go as text, and answers too."""

    def __init__(self, cache):
        place = Place(
            name="e",
            node="n",
            host="far",
            device=detect("cpu"),
            cores=(0,),
            alone=True,
            noise=0.012,
            versions={},
        )
        self.here, self.packed, self.done, self.fails = Workplace(place, cache), {}, [], ()

    def wait(self):
        return (self.here.place,)

    def send(self, folder):
        packed = pack(folder)
        self.packed[name_of(packed)] = packed
        return name_of(packed)

    def answers(self, jobs):
        for job in jobs:
            answer = Future()
            if job.key in self.fails:
                answer.set_exception(JobFailed("5 evaluators died of it"))
            else:
                answer.set_result(self.do(job))
            self.done.append(job.key)
            yield job, answer

    def do(self, job):
        self.here.files = {name: unpacked(self.packed[name], self.here.cache / "files") for name in job.files}
        module, _, function = job.function.partition(":")
        return getattr(import_module(module), function)(job.text, self.here)


@pytest.fixture
def data(tmp_path):
    return made_up_checkout("kernelbench", tmp_path / "checkout")


@pytest.fixture
def searches(monkeypatch):
    """Replace the optimiser: each search makes a run that found nothing."""
    made = []

    def optimize(task, *, on_event, store, **more):
        made.append((task.name, more["proposers"]))
        with Store(store) as kept:
            run = kept.create_run(load_task("examples/swiglu.py"), device="cpu-1", budget=Budget(), seed=0)
        on_event(Event(event="run", run=run.id, elapsed_s=0.0))
        return run.id

    monkeypatch.setattr(_search, "optimize", optimize)
    monkeypatch.setattr(
        _search, "_found", lambda given, run: (_search.unknown("nothing was found", str(run)), None)
    )
    monkeypatch.setattr(_search, "_measure_once", lambda device: None)
    return made


def searching():
    return Searching(Budget(minutes=1), {"proposers": ("library",), "more": {"a": ("b",)}})


def test_rows_are_as_without_a_cluster_and_runs_are_in_the_store(data, tmp_path, searches):
    suite, cluster = get_suite("kernelbench"), InThisProcess(tmp_path / "node")
    problems, file = suite.problems(data), tmp_path / "rows.jsonl"
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        found = list(search_on(cluster, given, problems, searching(), Journal(file)))
        again = list(search_on(cluster, given, problems, searching(), Journal(file)))
        alone = list(search_all(given, problems, searching(), Journal(file)))
    assert [r.problem for r in found] == [p.name for p in problems] and found == again == alone
    assert len(searches) == len(problems) and searches[0][1] == ("library",)
    assert {r.device for r in found} == {detect("cpu").fingerprint}
    assert found[0].place == "far, cores 0, noise 1.2%"
    with Store(tmp_path / "store") as store:
        assert {run.id for run in store.runs()} == {r.ours.run for r in found}


def test_a_job_that_is_done_again_on_its_machine_makes_no_second_run(data, tmp_path, searches):
    suite, cluster = get_suite("kernelbench"), InThisProcess(tmp_path / "node")
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        first = list(search_on(cluster, given, suite.problems(data)[:1], searching(), Journal()))
        second = list(search_on(cluster, given, suite.problems(data)[:1], searching(), Journal()))
    assert first == second and len(searches) == 1


def test_a_job_that_fails_is_a_row_and_no_job_begins_too_late(data, tmp_path, searches):
    suite, cluster = get_suite("kernelbench"), InThisProcess(tmp_path / "node")
    problems = suite.problems(data)
    with setup(suite, data, store=tmp_path / "store", device="cpu", minutes=1.0) as given:
        cluster.fails = (given.key(problems[0], searching().key),)
        row, *_ = search_on(cluster, given, problems, searching(), Journal())
        assert row.ours.reason == "5 evaluators died of it" and row.theirs.status == "unknown"
        assert list(search_on(cluster, given, problems, searching(), Journal(), ends_s=0.0)) == []


def test_finished_kernels_are_judged_there_in_their_own_name(data, tmp_path, monkeypatch):
    suite, cluster = get_suite("kernelbench"), InThisProcess(tmp_path / "node")
    problem, kernel = suite.problems(data)[0], tmp_path / "softmax.py"
    kernel.write_text("# mine")
    seen = []

    def judge(given, problem, file):
        seen.append((file.name, file.read_text()))
        return _cluster.row_of(given, problem, _cluster.Sides(str(file)), lambda *_: None, minutes=1)

    monkeypatch.setattr(_cluster, "judge_both", judge)
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        (row,) = judge_on(cluster, given, [problem], {problem.name: kernel}, Journal(tmp_path / "rows.jsonl"))
        again = list(
            judge_on(cluster, given, [problem], {problem.name: kernel}, Journal(tmp_path / "rows.jsonl"))
        )
    assert row.candidate == str(kernel) and seen == [("softmax.py", "# mine")]
    assert again == [row] == list(read_rows(tmp_path / "rows.jsonl"))


def test_an_operator_is_judged_elsewhere_with_all_its_files(tmp_path, monkeypatch):
    suite, data = get_suite("npukernelbench"), made_up_checkout("npukernelbench", tmp_path / "data")
    problems, cluster, seen = suite.problems(data), InThisProcess(tmp_path / "cache"), []

    def judge(given, problem, kernel):
        seen.append({path: file.read_text() for path, file in suite.files(kernel).items()})
        return _cluster.row_of(given, problem, _cluster.Sides(str(kernel)), lambda *_: None, minutes=1)

    monkeypatch.setattr(_cluster, "judge_both", judge)
    kernels = suite.candidates(data / "tasks", problems[:1]) | {problems[1].name: tmp_path / "nowhere.cpp"}
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        rows = list(judge_on(cluster, given, problems, kernels, Journal()))
    whole = suite.files(kernels[problems[0].name])
    assert len(whole) > 1 and seen == [{path: file.read_text() for path, file in whole.items()}]
    assert sorted("is no file" in row.ours.reason for row in rows) == [False, True]


def test_times_of_different_machines_are_not_compared(data, tmp_path, searches):
    suite = get_suite("kernelbench")
    with setup(suite, data, store=tmp_path / "store", device="cpu") as given:
        (row,) = search_all(given, suite.problems(data)[:1], searching(), Journal())

    def timed(median, device):
        update = {
            "decision": "improved",
            "verdict": "accepted",
            "speedup": {"median": median, "low": median, "high": median},
        }
        ours = type(row.ours).model_validate(row.ours.model_dump() | update)
        return row.model_copy(update={"ours": ours, "device": device})

    assert [c.factor for c in changes([timed(4.0, "a")], [timed(2.0, "a")])] == [2.0]
    assert list(changes([timed(4.0, "a")], [timed(2.0, "b")])) == []


def test_the_command_says_in_a_sentence_what_is_no_cluster(data, capsys):
    assert main(["suite", "run", "kernelbench", "--data", str(data), "--cluster", "nowhere"]) == 2
    assert "expected `auto`" in capsys.readouterr().err
