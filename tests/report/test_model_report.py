"""The report of a whole model: what each part took and takes, what each kernel brought, what was dropped and why."""

import re

import pytest

from kernelwright.cli import main
from kernelwright.models import (
    MODEL_DRIFT,
    Gain,
    ModelResult,
    Plan,
    PlannedRegion,
    RegionOutcome,
    keep_metadata,
)
from kernelwright.models._parts import TimedPart
from kernelwright.models._records import MODEL_PLAN, MODEL_RESULT
from kernelwright.models.drift import Drift
from kernelwright.records import DecisionStatus, Interval
from kernelwright.report import ModelReport, render_model
from kernelwright.report._model import before_and_after, steps_of
from kernelwright.report._treemap import Part, squarified
from kernelwright.store import Store


def region(name, time_us, chosen=True):
    return PlannedRegion(
        region=f"key-{name}", piece="", kind="block", label=name, uses=2, time_us=time_us, share=time_us / 1000.0,
        bound_us=time_us / 4, limit="dram", gain=Gain(low=0.0, expected=time_us / 3, high=time_us / 2), cost_s=60.0,
        chosen=chosen,
    )  # fmt: skip


PLAN = Plan(
    model="small", device="d", time_us=1000.0, operators_us=900.0, breaks=(), native=("dropout: draws random numbers",),
    regions=(region("attention", 400.0), region("<script>norm", 200.0), region("mlp", 100.0)), notes=(), seconds=3.0,
    parts=(
        TimedPart(module="layers.*.attention", operator="bmm", calls=8, time_us=600.0),
        TimedPart(module="layers.*.norm", operator="mul", calls=4, time_us=300.0),
    ),
)  # fmt: skip


def outcome(name, speedup=None, reason=""):
    return RegionOutcome(
        region=f"key-{name}", label=name, uses=2, runs=("r7",), speedup=speedup, expected_us=100.0, kept=not reason,
        reason=reason,
    )  # fmt: skip


HURTS = "the model is not faster with it"
RESULT = ModelResult(
    model="small", device="d", run="r1", decision=DecisionStatus.IMPROVED, baseline="compile", eager_speedup=1.6,
    speedup=Interval(median=1.4, low=1.3, high=1.5), expected=(1.1, 1.5, 2.0), seconds=300.0,
    regions=(outcome("<script>norm", 2.0), outcome("attention", 4.0), outcome("mlp", 1.2, HURTS)),
)  # fmt: skip
NOTHING = RESULT.model_copy(
    update={"decision": DecisionStatus.EQUAL, "speedup": None, "eager_speedup": None, "reason": "no gain", "run": "",
            "regions": (outcome("mlp", None, "no kernel was accepted"),)}
)  # fmt: skip


def test_each_kernel_is_a_step_by_amdahls_law():
    attention, norm = steps_of(ModelReport(RESULT, PLAN))
    assert attention.name == "attention" and attention.covered == 0.4
    assert attention.speedup == pytest.approx(1000.0 / 700.0), "400 us become 100"
    assert norm.covered == pytest.approx(0.6) and norm.speedup == pytest.approx(1000.0 / 600.0)


def test_the_parts_add_up_to_the_time_before_and_after():
    (_, before), (_, after) = before_and_after(ModelReport(RESULT, PLAN))
    assert sum(p.time_us for p in before) == pytest.approx(1000.0)
    assert sum(p.time_us for p in after) == pytest.approx(1000.0 / 1.6)
    assert {p.name: p.time_us for p in after if p.style == "kernel"} == {
        "attention": 100.0,
        "<script>norm": 100.0,
    }


def test_one_program_for_all_of_it_is_one_part_and_one_step():
    whole = RegionOutcome(
        region="whole", label="the whole model", uses=1, runs=("r1",), speedup=1.4, expected_us=500.0, kept=True,
        reason="",
    )  # fmt: skip
    report = ModelReport(RESULT.model_copy(update={"regions": (whole,)}), PLAN)
    (step,) = steps_of(report)
    assert (step.covered, step.speedup) == (1.0, pytest.approx(1.6)), "as measured over eager"
    _, (_, after) = before_and_after(report)
    assert [round(p.time_us) for p in after] == [625, 0]
    assert "one program" in render_model(report)


def test_the_page_says_what_came_of_each_region_and_escapes_what_it_is_called():
    text = render_model(ModelReport(RESULT, PLAN))
    for said in (
        "1.40×", "1.30 to 1.50", "1.50 was forecast", "measured 1.60×", "native: the model is not faster with it",
        "layers.*.attention bmm: 600 µs, 8 calls", ">layers.*.attention</text>",
        "dropout: draws random numbers", "drift NATIVE CHANGED --run r1",
        "&lt;script&gt;norm",
    ):  # fmt: skip
        assert said in text, said
    assert "<script>" not in text and "http" not in text.replace("http://www.w3.org", "")


def test_nothing_better_found_is_a_page_too():
    text = render_model(ModelReport(NOTHING, PLAN))
    assert "Nothing better found" in text and "no gain" in text and "native: no kernel was accepted" in text
    assert "Eager torch" in text and "With the accepted kernels" not in text
    assert "2 more of the plan were not tried" in text and "<li>attention ×2</li>" in text
    assert "<li>&lt;script&gt;norm ×2</li>" in text
    assert "Is it still the same model?" not in text, "nothing was compared"
    assert "No plan was kept" in render_model(ModelReport(NOTHING))


def test_how_a_plan_was_timed_is_no_part_that_stays_native():
    noted = PLAN.model_copy(update={"native": (), "notes": ("timed in processor time",)})
    text = render_model(ModelReport(RESULT, noted))
    assert "How it was planned" in text and "What stays native" not in text


@pytest.mark.parametrize("sizes", [(860.0, 250.0), (100.0, 400.0)])
def test_a_treemap_fills_its_rectangle_by_time(sizes):
    parts = [Part(str(i), 2.0**i) for i in range(9)]
    boxes = squarified([*parts, Part("none", 0.0)], *sizes)
    width, height = sizes
    assert len(boxes) == 9
    for box in boxes:
        assert box.width * box.height == pytest.approx(width * height * box.part.time_us / 511.0)
        assert box.x >= -1e-6 and box.x + box.width <= width + 1e-6
        assert box.y >= -1e-6 and box.y + box.height <= height + 1e-6
    for one, other in ((a, b) for a in boxes for b in boxes if a is not b):
        apart = (
            one.x + one.width <= other.x + 1e-6 or other.x + other.width <= one.x + 1e-6
            or one.y + one.height <= other.y + 1e-6 or other.y + other.height <= one.y + 1e-6
        )  # fmt: skip
        assert apart


def test_the_command_shows_a_model_with_its_plan_and_drift(tmp_path, capsys):
    drift = Drift(
        outcome="drifted", reason="the cache is off by one", dtype="float32", scenes=(), limits={}, noise=1.0
    )
    with Store(tmp_path / "store") as store:
        store.keep(MODEL_RESULT, NOTHING.origin, {NOTHING.origin: NOTHING.to_json()})
        keep_metadata(store, MODEL_PLAN, NOTHING.origin, PLAN)
        keep_metadata(store, MODEL_DRIFT, "another", drift)
    page = tmp_path / "page.html"
    flags = ["--to", str(page), "--store", str(tmp_path / "store")]
    assert main(["report", "small", *flags]) == 0
    text = page.read_text()
    assert "Nothing better found" in text and "Eager torch" in text and "off by one" not in text
    with Store(tmp_path / "store") as store:
        keep_metadata(store, MODEL_DRIFT, "small", drift)
    assert main(["report", "small", *flags]) == 0
    assert re.search(r"As deployed: .*drifted.*the cache is off by one", page.read_text())
    assert main(["report", "nosuch", *flags]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_a_model_that_stays_native_is_told_with_what_was_timed_and_why_the_search_ended():
    timed = NOTHING.model_copy(update={"speedup": Interval(median=0.8), "ended": "time was up: mlp is next"})
    page = render_model(ModelReport(timed, PLAN))
    assert "The best that was timed was 0.80 times as fast as compile (equal)." in page
    assert "The search ended: time was up: mlp is next." in page and "timed was" not in render_model(
        ModelReport(NOTHING)
    )
