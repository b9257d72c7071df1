"""What of an accepted candidate goes behind the guard."""

import pytest

from kernelwright.records import (
    Budget,
    Interval,
    ServedSizes,
    SizeOf,
    SizeProbe,
    SymbolRange,
    WorkloadDecision,
)  # fmt: skip
from kernelwright.search.session import _packaging
from kernelwright.store import Store
from kernelwright.testing import PlantedJudge, PlantedLanguage, planted_candidate, planted_task


@pytest.fixture
def packaged(monkeypatch):
    calls = []
    monkeypatch.setattr(_packaging, "package", lambda *given, **_: calls.append(given))
    return calls


def timed(workload, ratio):
    speedup = Interval(median=ratio, low=ratio - 0.1, high=ratio + 0.1)
    return WorkloadDecision(
        workload=workload, speedup=speedup, time_us=50.0, baseline_us=50.0 * ratio, baseline="eager"
    )


def accepted(times, slower=()):
    """A candidate accepted on the workloads of `times`, slower than the native op on some."""
    candidate = planted_candidate(times)
    found = PlantedJudge().accept(candidate, PlantedLanguage().build(candidate))
    rows = tuple(timed(n, 0.8) if n in slower else timed(n, 100 / t) for n, t in times.items())
    return found.model_copy(update={"decision": found.decision.model_copy(update={"workloads": rows})})


@pytest.fixture
def pack(tmp_path, packaged):
    def pack(task, *evaluations):
        with Store(tmp_path / "store") as store:
            run = store.create_run(task, device="cpu-1", budget=Budget(evaluations=1), seed=0)
        _packaging.package_accepted(task, run, evaluations, tmp_path, {})
        ((_, specialisations, claim, _),) = packaged
        return [(v.evaluation, [w.name for w in v.workloads]) for v in specialisations], claim

    return pack


def test_workloads_that_are_slower_or_not_served_stay_outside_the_guard(pack):
    task = planted_task(workloads={"fast": 4, "slow": 8, "unserved": 16})
    evaluation = accepted({"fast": 50.0, "slow": 50.0, "unserved": 50.0}, slower={"slow"})
    verdict = evaluation.verdict.model_copy(update={"unsupported": ("unserved",)})
    specialisations, claim = pack(task, evaluation.model_copy(update={"verdict": verdict}))
    assert [names for _, names in specialisations] == [["fast"]]
    assert "slow" in claim.native
    assert "no kernel was accepted there" in claim.to_markdown()


def test_a_slower_size_between_two_faster_ones_parts_the_range(pack):
    task = planted_task(workloads={"a": 4, "b": 8, "c": 16, "d": 32})
    specialisations, claim = pack(task, accepted({"a": 50.0, "b": 50.0, "c": 50.0, "d": 50.0}, slower={"c"}))
    assert [names for _, names in specialisations] == [["a", "b"], ["d"]]
    assert claim.native == ("c",)


def test_each_workload_goes_to_the_kernel_that_is_fastest_on_it(pack):
    task = planted_task(workloads={"a": 4, "b": 8, "c": 16})
    every, large = accepted({"a": 50.0, "b": 50.0, "c": 50.0}), accepted({"c": 25.0})
    specialisations, claim = pack(task, every, large)
    assert specialisations == [(large, ["c"]), (every, ["a", "b", "c"]), (large, ["c"])]
    assert claim.serves == dict.fromkeys("ab", every.candidate.key) | {"c": large.candidate.key}
    assert claim.decisions == (every.decision, large.decision)


def test_a_kernel_that_serves_nothing_is_left_out(pack):
    task = planted_task(workloads={"a": 4})
    fast, slow = accepted({"a": 40.0}), accepted({"a": 80.0})
    specialisations, claim = pack(task, slow, fast)
    assert specialisations == [(fast, ["a"])]
    assert claim.decisions == (fast.decision,)


def test_the_sheet_names_arguments_that_no_draw_varies(pack, monkeypatch):
    monkeypatch.setattr(_packaging, "unvaried", lambda problem: ("index",))
    _, claim = pack(planted_task(workloads={"a": 4}), accepted({"a": 50.0}))
    assert "- values of index other than those" in claim.to_markdown()


def test_the_sheet_says_that_no_float64_was_to_be_had(pack):
    evaluation = accepted({"a": 50.0})
    (first, *others) = evaluation.verdict.findings
    findings = (first.model_copy(update={"figures": {"in_float32": 1.0}}), *others)
    verdict = evaluation.verdict.model_copy(update={"findings": findings})
    _, claim = pack(planted_task(workloads={"a": 4}), evaluation.model_copy(update={"verdict": verdict}))
    assert "- errors against float64: an operator of the reference has no such form" in claim.to_markdown()


def sized(workload, low, high, *outcomes):
    """What was opened around a workload: one range, and what came of other sizes."""
    box = (SymbolRange(symbol="n", low=low, high=high),)
    probes = tuple(SizeProbe(sizes={"n": n}, outcome=o, speedup=s) for n, o, s in outcomes)
    return ServedSizes(workload=workload, arguments=((SizeOf(symbol="n"),),), boxes=(box,), probes=probes)


def test_a_range_that_was_opened_comes_last_and_the_sheet_shows_its_evidence(pack):
    sizes = sized(
        "a", 2, 8, (2, "served", 1.2), (8, "served", 1.5), (9, "slower", 0.8), (3, "declined", None)
    )
    one = accepted({"a": 50.0}).model_copy(update={"sizes": (sizes,)})
    specialisations, claim = pack(planted_task(workloads={"a": 4}), one)
    assert specialisations == [(one, ["a"]), (one, ["a"])]
    sheet = claim.to_markdown()
    assert f"{one.candidate.key} serves n from 2 to 8" in sheet
    assert "timed against the native op (times as fast), at: n 2 (1.20); n 8 (1.50)" in sheet
    assert "is slower, so that the native op is kept, at: n 9 (0.80)" in sheet
    assert "declines, so that the native op is kept, at: n 3" in sheet


def test_the_sheet_names_every_baseline_the_fastest_first(pack):
    one = accepted({"a": 50.0})
    against = one.decision.model_copy(update={"against": {"eager": 5.5, "compile": 1.4}})
    _, claim = pack(planted_task(workloads={"a": 4}), one.model_copy(update={"decision": against}))
    told = "against each baseline, in the median: 1.40 times as fast as compile, 5.50 times as fast as eager."
    assert claim.to_markdown().count(told) == 1


def test_an_opened_range_never_holds_a_size_on_which_the_kernel_was_slower(pack):
    task = planted_task(workloads={"a": 4, "b": 8})
    one = accepted({"a": 50.0, "b": 50.0}, slower={"b"})
    specialisations, claim = pack(task, one.model_copy(update={"sizes": (sized("a", 2, 16),)}))
    assert [names for _, names in specialisations] == [["a"]]
    assert "serves n" not in claim.to_markdown()
