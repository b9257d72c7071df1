"""A whole model from plan to verdict: searches and judge are planted, then everything is real but the search."""

import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.models.conftest import unhurried, written
from tests.models.world import PILOT, planted_world, tasks_of

from kernelwright.api.judge import judge
from kernelwright.cli._model import model_text
from kernelwright.devices import detect
from kernelwright.errors import InputError, TaskError
from kernelwright.models import (
    Gain,
    _judged,
    _optimize,
    _searching,
    _whole,
    _whole_judge,
    load_model,
    model_result,
    optimize_model,
    patch,
)
from kernelwright.models import _look as looking
from kernelwright.models import _plan as planning
from kernelwright.models._look import gain_of
from kernelwright.models._pilot import Pilot, forecast_of
from kernelwright.records import Candidate, DecisionStatus, Interval, SourceFile
from kernelwright.search import accepted_of, package_accepted
from kernelwright.store import Store


@pytest.fixture
def world(monkeypatch, tmp_path, small_plan):
    return planted_world(monkeypatch, tmp_path, small_plan)


def test_a_plan_tells_shares_bounds_and_gains(small_plan):
    plan = small_plan.plan
    rows = {r.label: r for r in plan.regions}
    assert rows["norms.0"].uses == 3 and rows["layers.0"].uses == 3
    assert all(r.gain.low <= r.gain.expected <= r.gain.high and 0 < r.share <= 1 for r in plan.regions)
    low, expected, high = plan.expected
    assert 1.0 <= low <= expected <= high <= plan.ceiling
    assert plan.chosen and plan.device == detect("cpu").fingerprint


def test_what_helps_is_kept_and_what_hurts_inside_is_taken_out(world, small_plan):
    names = tasks_of(small_plan)
    world.found = {names["norms.0"]: 2.0, names["layers.0"]: 1.5}
    world.effects = {"norms.0": 0.4, "layers.0": -0.2}
    result = world.optimize(small_plan.loaded)
    outcomes = {r.label: r for r in result.regions}
    assert result.improved and result.eager_speedup == 1.5 and result.run == "r1"
    assert outcomes["norms.0"].kept and not outcomes["layers.0"].kept
    assert outcomes["layers.0"].reason.startswith("the model is not faster with it: with it alone it is 0.80")
    assert world.asked[-1] == (False, "kernels for norms.0")
    assert result.weights[:3] == ("norms.0.weight", "norms.1.weight", "norms.2.weight")
    assert model_result("last", world.store) == result


def test_kernels_that_lose_to_the_best_native_form_are_told_by_both_ratios(world, small_plan, monkeypatch):
    names = tasks_of(small_plan)
    world.found, world.effects = {names["norms.0"]: 1.5}, {"norms.0": -0.2}
    monkeypatch.setattr(_judged, "over_eager", lambda *_: 1.74)
    result = world.optimize(small_plan.loaded)
    told = "0.80 times as fast as compile and 1.74 times as fast as eager"
    assert result.reason == f"no kernel makes the model faster: with the best it is {told}"
    outcomes = {r.label: r for r in result.regions}
    assert outcomes["norms.0"].reason == f"the model is not faster with it: with it alone it is {told}"
    assert outcomes["norms.0"].speedup == 1.5 and not result.improved


def test_more_is_kept_for_the_verdict_where_accepting_a_kernel_of_a_region_took_long(world, small_plan):
    names = tasks_of(small_plan)
    world.found = {names["norms.0"]: 2.0, names["layers.0"]: 1.5}
    world.optimize(small_plan.loaded, minutes=2.0)
    assert len(world.searched) == 2
    world.accepted_s, world.store = 60.0, world.folder / "slow"
    world.optimize(small_plan.loaded, minutes=2.0)
    assert len(world.searched) == 2 + 1, "another search would leave too little for the verdict"


def test_what_became_of_the_kernels_of_a_region_is_said_where_none_was_accepted(
    world, small_plan, monkeypatch
):
    names = tasks_of(small_plan)
    world.found, world.effects = {names["norms.0"]: 2.0}, {"norms.0": 0.4}
    late = SimpleNamespace(
        candidate=SimpleNamespace(key="of no other run"),
        timing=None,
        decision=SimpleNamespace(status="inconclusive", reason="the ratio is 2.09"),
    )
    monkeypatch.setattr(Store, "evaluations", lambda *_: [late])
    outcomes = {r.label: r for r in world.optimize(small_plan.loaded).regions}
    assert outcomes["layers.0"].reason == (
        "no kernel was accepted; 1 tried: 1 inconclusive: the ratio is 2.09"
    )


def test_what_keeps_a_patched_model_native_is_said_before_anything_is_spent(world, small_plan, monkeypatch):
    noted = small_plan.plan.model_copy(update={"notes": ("norms.0 has forward hooks",)})
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: replace(small_plan, plan=noted))
    world.optimize(small_plan.loaded)
    assert [e.data["message"] for e in world.events if e.event == "plan"][1:] == ["norms.0 has forward hooks"]


def test_nothing_is_installed_if_the_whole_is_not_accepted(world, small_plan):
    names = tasks_of(small_plan)
    world.found, world.effects, world.final = {names["norms.0"]: 2.0}, {"norms.0": 0.4}, DecisionStatus.EQUAL
    result = world.optimize(small_plan.loaded)
    assert not result.improved and result.reason == "planted" and not any(r.kept for r in result.regions)
    with pytest.raises(InputError, match="nothing was accepted for small: planted"):
        patch(small_plan.loaded.module, result, store=world.store)


def test_the_failure_of_a_region_never_ends_the_run(world, small_plan):
    names = tasks_of(small_plan)
    world.found = {n: ValueError("a bug") for n in names.values()} | {names["norms.0"]: 2.0}
    world.effects = {"norms.0": 0.4}
    result = world.optimize(small_plan.loaded)
    assert result.improved
    assert any("ValueError: a bug" in r.reason for r in result.regions)


@pytest.mark.parametrize("at", ["in the next search", "right after its end"])
def test_a_run_that_was_cut_off_takes_over_what_was_finished(world, small_plan, at):
    names = tasks_of(small_plan)
    world.found = {names["norms.0"]: 2.0}
    search = world.search

    def interrupted(task, **options):
        if task.name == names["norms.0"]:
            found = search(task, **options)
            if at == "in the next search":
                return found
        raise KeyboardInterrupt

    world.search = interrupted
    with pytest.raises(KeyboardInterrupt):
        world.optimize(small_plan.loaded)
    world.search, world.effects = search, {"norms.0": 0.4}
    before = world.searched.count(names["norms.0"])
    assert before == 1
    result = world.optimize(small_plan.loaded)
    assert world.searched.count(names["norms.0"]) == 1 and result.improved


@pytest.mark.parametrize(("pilot", "most"), [(0.6, 10.0), (None, 10.0), (1.1, 6.0)])
def test_what_was_found_is_decided_on_in_all_minutes_that_are_left(
    world, small_plan, monkeypatch, pilot, most
):
    monkeypatch.setattr(_whole, "piloted", lambda *_: None if pilot is None else Pilot(pilot, ("b", "a")))
    world.optimize(small_plan.loaded, proposers=("library", "schedule"), minutes=10.0)
    whole, region = world.budgets[:2]
    assert world.first[:2] == [("b", "a") if pilot else (), ()], (
        "what was fastest in the pilot is tried first"
    )
    assert world.searched[0].endswith("whole")
    assert whole.minutes == pytest.approx(most, abs=0.3), (
        "a program that is slower from the start has its share"
    )
    assert whole.search_minutes == pytest.approx(0.75 * 6.0, abs=0.3)
    assert 5.5 < region.minutes < 6.1 and region.search_minutes < 1.0


def test_no_kernel_means_the_native_model_stays(world, small_plan):
    result = world.optimize(small_plan.loaded)
    assert not result.improved and result.reason == "no region has an accepted kernel" and not world.asked
    assert result.pilot is None, "no first programs were timed"


def test_what_first_programs_took_is_kept_whatever_became_of_the_model(world, small_plan):
    names = tasks_of(small_plan)
    native = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert not native.improved and native.pilot == 0.5
    world.found, world.effects = {names["norms.0"]: 3.0}, {"norms.0": 0.5}
    by_regions = world.optimize(small_plan.loaded, proposers=("library", "schedule"), baselines=("eager",))
    assert by_regions.improved and by_regions.pilot == 0.5


def test_regions_of_a_model_whose_graph_breaks_are_searched_and_judged_in_their_pieces(
    world, tmp_path, monkeypatch
):
    path = written(
        tmp_path,
        "branching.py",
        """
        import torch

        class Branching(torch.nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    x = torch.sigmoid(x) * 3 + x * x - 1
                return torch.softmax(x * 3 + x * x - 1, -1)

        def build():
            return Branching().eval(), (torch.ones(256, 1024),)
        """,
    )
    monkeypatch.setattr(
        looking, "gain_of", lambda time_us, _: gain_of(time_us, 0.0)
    )  # whatever the bounds here
    unhurried(monkeypatch)
    made = planning.planned(path, device=detect("cpu"))
    assert made.plan.breaks and made.plan.regions
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: made)
    result = world.optimize(path)
    assert not result.improved and not world.asked and world.searched
    row = made.plan.regions[0]
    world.found = {f"region_{row.region}": 3.0}

    world.effects = {row.label: 0.5}
    result = world.optimize(path)
    (kept,) = [r for r in result.regions if r.kept]
    assert result.improved and result.pieces and kept.region == row.region and result.run == "r1"
    assert world.asked[-1] == (False, f"kernels for {row.label}") and world.task.name == "branching_whole"
    assert result.identity is not None and not result.identity.graph, "there is no one graph"
    told = model_text(result)
    assert "torch.compile(model, backend=" in told and f"export {result.run} --to" in told


def test_one_program_for_the_whole_model_comes_first_and_ends_the_search(world, small_plan):
    world.found = {"small_whole": 1.7}
    result = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert result.improved and result.speedup.median == 1.7 and world.searched == ["small_whole"]
    assert result.pilot == 0.5 and result.expected == forecast_of(0.5)
    assert any("its first programs take 50% of eager's time" in e.data["message"] for e in world.events)
    (whole,) = result.regions
    assert whole.kept and whole.label == "the whole model" and whole.runs == (result.run,)
    assert result.weights[:3] == ("norms.0.weight", "norms.1.weight", "norms.2.weight")
    assert model_result("last", world.store) == result
    again = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert again.run == result.run and world.searched == ["small_whole"]  # taken over
    assert again.pilot is None and again.expected == small_plan.plan.expected_of_whole
    world.optimize(small_plan.loaded, proposers=("library", "schedule"), baselines=("eager",))
    assert world.searched == ["small_whole"] * 2, "a search against other native forms is another"


def test_a_program_for_the_whole_that_time_left_undecided_is_said_with_what_was_expected_of_it(
    world, small_plan, monkeypatch
):
    undecided = SimpleNamespace(
        verdict=None, timing=None,
        decision=SimpleNamespace(
            status=DecisionStatus.UNKNOWN, reason="time was up", speedup=Interval(median=1.3), baseline="compile"
        ),
    )  # fmt: skip
    monkeypatch.setattr(Store, "evaluations", lambda *_: [undecided])
    monkeypatch.setattr(_searching.Regions, "next", lambda *_: None)
    late = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert late.reason == "time was up before a program for the whole model was decided; allow more --minutes"
    assert late.expected == forecast_of(PILOT.share)
    assert late.speedup.median == 1.3 and late.baseline == "compile" and late.run and not late.improved
    undecided.decision.status = DecisionStatus.SLOWER
    slower = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert slower.reason == "no region has an accepted kernel" and slower.expected != late.expected
    assert slower.decision is DecisionStatus.SLOWER


def test_a_search_of_the_whole_that_found_nothing_is_taken_over_unless_it_was_shorter(world, small_plan):
    for minutes, searches in ((4.0, 1), (4.0, 1), (8.0, 2), (8.0, 2)):
        world.optimize(small_plan.loaded, proposers=("library", "schedule"), minutes=minutes)
        assert world.searched.count("small_whole") == searches


def test_regions_are_searched_where_no_program_for_the_whole_was_accepted(world, small_plan):
    names = tasks_of(small_plan)
    world.found = {names["norms.0"]: 2.0, "small_whole": ValueError("a bug")}
    world.effects = {"norms.0": 0.4}
    result = world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    outcomes = {r.label: r for r in result.regions}
    assert result.improved and outcomes["norms.0"].kept and world.searched[0] == "small_whole"
    assert not outcomes["the whole model"].kept and "ValueError: a bug" in outcomes["the whole model"].reason


def test_the_whole_is_left_out_where_its_regions_are_worth_more(world, small_plan, monkeypatch):
    whole = small_plan.plan.whole.model_copy(update={"gain": Gain(low=0.0, expected=0.1, high=0.2)})
    time_us = small_plan.plan.time_us
    worth = planning._chosen(small_plan.plan.regions, small_plan.regions, whole, time_us, 600.0)
    assert not worth["whole"].chosen
    large = whole.model_copy(update={"gain": Gain(low=0.5, expected=time_us, high=time_us)})
    assert planning._chosen(small_plan.plan.regions, small_plan.regions, large, time_us, 600.0)[
        "whole"
    ].chosen
    made = replace(small_plan, plan=small_plan.plan.model_copy(update={"whole": worth["whole"]}))
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: made)
    world.optimize(small_plan.loaded, proposers=("library", "schedule"))
    assert world.searched and "small_whole" not in world.searched


def test_numerics_hold_for_the_whole_its_regions_and_the_verdict(world, small_plan, monkeypatch):
    names, search, asked = tasks_of(small_plan), world.search, []
    monkeypatch.setattr(
        _optimize,
        "planned",
        lambda target, numerics, **_: replace(small_plan, loaded=replace(target, numerics=numerics)),
    )
    world.search = lambda task, **options: asked.append(task.contract.numerics) or search(task, **options)
    world.found, world.effects = {names["norms.0"]: 2.0}, {"norms.0": 0.4}
    both = ("library", "schedule")
    result = world.optimize(small_plan.loaded, proposers=both, numerics="fast")
    assert result.improved and result.numerics == "fast" and len(asked) > 1 and set(asked) == {"fast"}
    assert world.task.contract.numerics == "fast"
    before = world.searched.count(names["norms.0"])
    assert world.optimize(small_plan.loaded, proposers=both).numerics is None
    assert asked[-1] == "native" and world.searched.count(names["norms.0"]) == before + 1, "not taken over"


def test_a_model_that_does_not_run_is_said(tmp_path):
    path = written(
        tmp_path,
        "bad.py",
        "import torch\ndef build():\n    return torch.nn.Linear(2, 3).eval(), (torch.ones(1, 7),)\n",
    )
    with pytest.raises(TaskError, match="does not run on its inputs"):
        planning.plan(path, device="cpu")


SLOW = """
import torch


class Waves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(128) + 0.5)

    def forward(self, x):
        for _ in range(8):
            x = x * self.weight + 0.125
        return x


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Waves(), Waves()
        self.middle = torch.nn.Linear(128, 128)

    def forward(self, x):
        return self.second(self.middle(self.first(x)))


def build():
    torch.manual_seed(0)
    return Model().eval(), (torch.randn(128, 128),)
"""
FUSED = """
#include "kernelwright.h"

KW_KERNEL(waves) {
  auto x = args.tensor<const float>(0), w = args.tensor<const float>(1);
  auto out = args.tensor<float>(2);
  const int64_t rows = x.shape(0), n = x.shape(1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < n; ++i) {
      float value = x.data()[r * n + i];
      for (int step = 0; step < 8; ++step) value = value * w.data()[i] + 0.125f;
      out.data()[r * n + i] = value;
    }
}
"""


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.needs("C++ compiler")
def test_a_planted_kernel_is_accepted_in_the_region_and_in_the_model_and_patched(
    tmp_path, monkeypatch, shared_cache
):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(shared_cache))
    path, store = written(tmp_path, "slow.py", SLOW), tmp_path / "store"
    plans = []

    def planned(*given, **options):
        plans.append(planning.planned(*given, **options))
        return plans[-1]

    monkeypatch.setattr(_optimize, "planned", planned)

    def search(task, **_):
        if plans[0].regions[task.name.removeprefix("region_")][1].label != "first":
            raise InputError("only one region has a planted kernel")
        file = SourceFile(path="kernel.cpp", text=FUSED)
        planted = Candidate(sources=(file,), language="cpp", entry="kernel.cpp:waves", style="destination")
        return judge(task, planted, device="cpu", baselines=("eager",), store=store)

    result = optimize_model(
        path,
        minutes=20,
        device="cpu",
        baselines=("eager",),
        proposers=("library",),
        store=store,
        search=search,
    )
    assert result.improved, result
    outcome = next(r for r in result.regions if r.label == "first")
    assert outcome.kept and outcome.uses == 2 and outcome.speedup > 1.5
    assert result.speedup.low > 1.02 and result.eager_speedup > 1.02
    with Store(store) as kept:
        record = kept.run(result.run)
        task, accepted = kept.task(record.task), accepted_of(kept, record)
    folder = package_accepted(task, record, accepted, tmp_path / "package", {})
    assert (folder / "claim.json").is_file() and (folder / "slow_whole" / "specialisations.json").is_file()
    loaded = load_model(path)
    state = {k: v.clone() for k, v in loaded.module.state_dict().items()}
    with patch(loaded.module, result, store=store) as patched, torch.no_grad():
        loaded.module(*loaded.args)
        got = loaded.module(*loaded.args)
        assert patched.calls == 1
        native = patched._native(*loaded.args)
    exact = load_model(path).module.double()(loaded.args[0].double())
    limit = 8 * (native - exact).abs().max()  # a chain of eight steps multiplies what is rounded
    assert 0 < limit < 0.01 * exact.abs().max() and (got - exact).abs().max() <= limit
    assert all(torch.equal(v, state[k]) for k, v in loaded.module.state_dict().items())
    assert detect("cpu").fingerprint == result.device


def test_the_verdict_gets_the_time_that_is_left_and_nothing_runs_on_after_the_margin(
    world, small_plan, monkeypatch
):
    asked = {}

    @contextmanager
    def judging(task, *, minutes, **options):
        asked["minutes"] = minutes
        yield lambda *_: time.sleep(60)

    monkeypatch.setattr(_whole_judge, "judging", judging)
    monkeypatch.setattr(_optimize, "_MARGIN_S", -598.5)
    key = next(iter(small_plan.regions))
    world.found = {f"region_{key}": 2.0}
    begun = time.monotonic()
    result = world.optimize("model.py", minutes=10.0)
    assert time.monotonic() - begun < 10 and not result.improved
    assert 9.0 < asked["minutes"] <= 10.0
    assert "time was up after" in result.reason and "allow more --minutes" in result.reason


def test_without_time_to_plan_it_says_so(world, monkeypatch):
    monkeypatch.setattr(_optimize, "planned", lambda *_, **__: time.sleep(60))
    monkeypatch.setattr(_optimize, "_MARGIN_S", -59.8)
    with pytest.raises(InputError, match="before the model was planned; allow more --minutes"):
        world.optimize("model.py", minutes=1.0)
