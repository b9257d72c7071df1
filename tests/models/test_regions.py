"""Parts of a model that may become tasks, equal ones together; their tasks compute the same."""

import pytest
import torch
from torch import nn

from kernelwright.models import capture_model, load_model, regions_of
from kernelwright.models._region_form import form_of_task
from kernelwright.models._task import _input, _mask, graph_text, region_sketch, region_task, region_text
from kernelwright.models._timing import Fact, timed
from kernelwright.models.pieces import Unprintable
from kernelwright.tasks import Problem


def looked(target, inputs=None):
    loaded = load_model(target, inputs)
    capture = capture_model(loaded).whole
    whole = loaded.whole
    return capture, timed(capture, whole, seconds=0.0), regions_of(capture)


def named(found, label):
    return next(r for r in found.regions if r.label == label)


def test_equal_modules_are_one_region_with_a_use_each(small):
    _, _, found = looked(small)
    assert len(named(found, "norms.0").units) == 3 and named(found, "norms.0").kind == "block"
    assert len(named(found, "layers.0").units) == 3
    kinds = {r.kind for r in found.regions}
    assert kinds == {"op", "fused", "block", "chain"}


def test_uses_of_a_region_never_overlap_and_other_sizes_are_another_region():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 8), nn.ReLU())
    _, _, found = looked(model, (torch.ones(2, 4),))
    for region in found.regions:
        places = [i for u in region.units for i in range(u.start, u.stop)]
        assert len(places) == len(set(places))
    relu = [r for r in found.regions if r.label == "1" or r.label == "5"]
    assert sorted(len(r.units) for r in relu) == [1, 2]


def test_the_task_of_a_region_computes_what_the_module_does(small):
    capture, times, found = looked(small)
    region = named(found, "norms.0")
    task = region_task(capture, region, times)
    problem, workload = Problem(task), task.workloads[0]
    inputs, state = problem.inputs(workload, 1), problem.state(workload, 1)
    got = problem.run_reference(workload, inputs, state).outputs[0]
    x, weight = inputs[0], state["w0"]
    want = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
    torch.testing.assert_close(got, want)
    assert [s.shape for s in workload.arguments] == [(4, 16)] and [s.name for s in workload.state] == ["w0"]


def test_a_sketch_has_the_same_shapes_as_the_task(small):
    capture, times, found = looked(small)
    for label in ("norms.0", "layers.0"):
        sketch = region_sketch(capture, named(found, label), times).workloads[0]
        task = region_task(capture, named(found, label), times).workloads[0]
        for one, other in ((sketch.arguments, task.arguments), (sketch.state, task.state)):
            assert [(s.name, s.shape, s.dtype) for s in one] == [(s.name, s.shape, s.dtype) for s in other]


def test_inputs_are_drawn_like_those_that_occur():
    class Scaled(nn.Module):
        def forward(self, x, index):
            return torch.relu(x * 100)[index] + 1

    capture, times, found = looked(Scaled(), (torch.randn(8, 8), torch.tensor([3, 5])))
    region = next(r for r in found.regions if r.kind == "op" and r.label == "relu")
    assert "torch.randn((8, 8)) * 1" in region_text(capture, region.texts[0], times)
    indexed = next(r for r in found.regions if r.label == "index")
    assert "torch.randint(3, 6, (2,)" in region_text(capture, indexed.texts[0], times)


def test_random_numbers_and_views_stay_native_with_a_reason():
    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x), x.view(-1)

    capture, times, found = looked(Noisy(), (torch.ones(2, 2),))
    assert any("random numbers" in line for line in found.native)
    for region in found.regions:
        assert "view" not in region.label
        region_text(capture, region.texts[0], times)


def test_masks_are_drawn_so_that_a_region_with_one_serves_any_other():
    class Attention(nn.Module):
        def forward(self, x, mask, added):
            kept = mask & (torch.arange(6) >= 0)
            return (
                nn.functional.scaled_dot_product_attention(x, x, x, kept) + (x @ x.mT + added).softmax(-1) @ x
            )

    added = torch.zeros(1, 6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    capture, times, found = looked(Attention(), (torch.randn(1, 6, 8), torch.ones(6, 6).bool(), added))
    task = region_task(capture, named(found, "scaled_dot_product_attention"), times)
    assert form_of_task(task) is not None, "it is found in other graphs"
    mask = next(v for v in Problem(task).inputs(task.workloads[0], 0) if v.dtype is torch.bool)
    assert mask[:, 0].all() and not mask.all(), "something is left of every row, and not all"
    drawn = eval(_mask(times.facts[capture.inputs[2]]))
    assert drawn.shape == (1, 6, 6) and drawn.isfinite()[..., 0].all() and drawn.isinf().any()
    scalar = Fact((), torch.bool, True, True, 0.0, 0.0, 1.0, "")
    assert eval(_mask(scalar)).shape == ()
    with pytest.raises(Unprintable, match="neither numbers nor a known mask"):
        _input(Fact((2,), torch.complex64, True, True, 0.0, 0.0, 1.0, ""), None)


def test_a_whole_graph_is_written_down_as_a_task(small):
    capture, times, _ = looked(small)
    values = {}
    exec(graph_text(capture, times), values)
    model, native = values["Model"](), load_model(small)
    state = native.whole.state_dict()
    model.load_state_dict({f"w{i}": state[name] for i, name in enumerate(capture.weights.values())})
    torch.testing.assert_close(model(*native.args), native.module(*native.args))


def test_times_are_those_of_nodes_and_facts_those_of_values(small):
    capture, times, _ = looked(small)
    assert set(times.nodes_us) == {n.name for n in capture.nodes} and times.rounds >= 5
    assert times.total_us == pytest.approx(times.region_us(capture, 0, len(capture.nodes)))
    assert times.facts[capture.inputs[0]].rms == pytest.approx(
        float(capture.values[capture.inputs[0]].square().mean().sqrt())
    )
