"""Plans at the sizes that matter: what is worth changing in all calls together, by planted plans and in real ones."""

import json

import pytest
from tests.models.conftest import written
from tests.models.test_sizes import MODEL

import kernelwright.models as models
from kernelwright.cli import main
from kernelwright.models import Gain, Plan, PlannedRegion, SizedPlan
from kernelwright.models._sized_plan import SizedPart


def region(label, time_us, expected_us, *, chosen=False):
    return PlannedRegion(
        region=label, piece="model", kind="block", label=label, uses=1, time_us=time_us, share=0.5, bound_us=1.0,
        limit="call", gain=Gain(low=0.0, expected=expected_us, high=2 * expected_us), cost_s=40.0, chosen=chosen,
    )  # fmt: skip


def part(size, weight, time_us, *regions):
    plan = Plan(
        model=f"m_batch{size}", device="d", time_us=time_us, operators_us=time_us, regions=regions,
        breaks=(), native=(), notes=(), seconds=1.0, gain=Gain(low=0.0, expected=time_us / 2, high=time_us / 2),
    )  # fmt: skip
    return SizedPart(sizes={"batch": size}, weight=weight, plan=plan)


PLANTED = SizedPlan(
    model="m",
    parts=(
        part(1, 0.8, 100.0, region("norm", 50.0, 20.0, chosen=True), region("mlp", 40.0, 1.0)),
        part(64, 0.2, 1000.0, region("mlp", 900.0, 400.0, chosen=True)),
    ),
    seconds=2.0,
)


def test_regions_are_weighed_by_the_calls_at_each_size():
    assert PLANTED.time_us == pytest.approx(280.0)
    mlp, norm = PLANTED.regions
    assert (mlp.label, mlp.sizes, mlp.cost_s) == ("mlp", ("batch=64",), 80.0)
    assert (mlp.time_us, mlp.gain.expected) == pytest.approx((212.0, 80.8))
    assert (norm.gain.expected, norm.share, norm.sizes) == (
        pytest.approx(16.0),
        pytest.approx(1 / 7),
        ("batch=1",),
    )
    low, expected, high = PLANTED.speedups(whole=False)
    assert (low, expected, high) == pytest.approx((1.0, 2.0, 2.0))
    assert PLANTED.speedups(whole=True) == (1.0, 1.0, 1.0), "no plan has a program for the whole"


def test_the_command_weighs_the_workloads_that_are_named(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(models, "plan_sizes", lambda target, sizes, **more: asked.append(sizes) or PLANTED)
    flags = ["plan", "f.py:build", "--workload", "batch=1:80", "--workload", "batch=64:20"]
    assert main(flags) == 0 and [one.weight for one in asked[0]] == [80.0, 20.0]
    said = capsys.readouterr().out
    assert "batch=64: 20% of the calls, 71% of the time" in said and "80.8 us (0 to 162 us)" in said
    assert main([*flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"][1]["plan"]["time_us"] == 1000.0 and found["regions"][0]["label"] == "mlp"
    assert main([*flags, "--trace", "t.json"]) == 2 and "leave --workload out" in capsys.readouterr().err


@pytest.mark.long
def test_a_model_is_planned_at_its_sizes(tmp_path):
    sizes = [models.sizes_of("batch=1,seq=1:80"), models.sizes_of("batch=64,seq=64:20")]
    found = models.plan_sizes(f"{written(tmp_path, 'sums.py', MODEL)}:build", sizes, minutes=10.0)
    assert found.model == "sums" and [one.weight for one in found.parts] == [0.8, 0.2]
    assert found.parts[0].plan.time_us < found.parts[1].plan.time_us
    assert {r.label for r in found.regions} >= {"the whole model"} and found.speedups(whole=True)[1] > 1.0
