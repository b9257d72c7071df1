"""Accepted kernels of regions inside other graphs of torch.compile: served where they were verified, nowhere else."""

import pytest
import torch
from tests.models.conftest import SMALL, two_regions, written
from tests.models.planted import accept
from torch import nn

import kernelwright.models._dynamo as backend
from kernelwright.deploy import Installed, set_installed
from kernelwright.devices import detect
from kernelwright.models import ModelResult, RegionOutcome, capture_model, dynamo_backend, load_model
from kernelwright.models._dynamo_regions import SITES
from kernelwright.models._records import MODEL_RESULT
from kernelwright.models._region_form import form_of_task
from kernelwright.models._task import region_task
from kernelwright.models._timing import untimed
from kernelwright.records import DecisionStatus, Interval
from kernelwright.store import Store

pytestmark = pytest.mark.usefixtures("graphs")
MARK = 100.0
KERNEL = """
import torch

packings = []


def prepare(weights):
    packings.append(1)
    return weights["w0"].clone()


def run(x, packed):
    if float(x.flatten()[0]) == 7.0:
        raise NotImplementedError("Unsupported: sevens")
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * packed + 100.0
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store in which a kernel of the small model's norms was accepted and kept, and the runs of it and the model."""
    folder = tmp_path_factory.mktemp("regions")
    capture = capture_model(load_model(written(folder, "small.py", SMALL))).pieces[0]
    region = next(r for r in two_regions(capture).regions if r.label == "norms.0")
    with Store(folder) as store:
        task = region_task(capture, region, untimed(capture))
        run, whole = accept(store, task, KERNEL), accept(store, task, KERNEL)
        outcome = RegionOutcome(
            region=region.key, label=region.label, uses=3, runs=(run,), speedup=2.0, expected_us=1.0, kept=True,
            reason="",
        )  # fmt: skip
        result = ModelResult(
            model="small", device=detect("cpu").fingerprint, run=whole, decision=DecisionStatus.IMPROVED,
            speedup=Interval(median=2.0), baseline="compile", eager_speedup=2.0, expected=(1.0, 2.0, 3.0),
            regions=(outcome,),
        )  # fmt: skip
        store.keep(MODEL_RESULT, whole, {whole: result.to_json()})
    assert form_of_task(task) is not None
    return folder, run, whole


class Norm(nn.Module):
    def __init__(self, width=16, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Other(nn.Module):
    """Another model, in which the region occurs twice, once on what is no whole number of it."""

    def __init__(self, **options):
        super().__init__()
        self.norms = nn.ModuleList(Norm(**options) for _ in range(2))
        self.up = nn.Linear(16, 16)

    def forward(self, x):
        return self.norms[1](self.up(self.norms[0](x.tanh())).relu()).sin()


def compiled(model, store, **options):
    return torch.compile(model, backend=dynamo_backend, options={"store": store}, **options)


def served(model, store, x, call=None):
    """Return how often kernels of regions answered in a call; where none did it must be right."""
    call = compiled(model, store) if call is None else call
    before = sum(site.calls for site in SITES)
    found = call(x)
    count = sum(site.calls for site in SITES) - before
    if count == 0:
        torch.testing.assert_close(found, model(x))
    return count


def test_a_region_is_served_in_another_model_wherever_it_occurs(kept, graphs):
    store, _, _ = kept
    model, x = Other(), torch.randn(4, 16)
    call = compiled(model, store)
    assert served(model, store, x, call) == 2 and len(graphs) == 1
    first = model.up(model.norms[0](x.tanh()) + MARK).relu()
    torch.testing.assert_close(call(x), (model.norms[1](first) + MARK).sin(), rtol=1e-4, atol=1e-3)
    packings = SITES[-1]._kernel._kernel.__globals__["packings"]
    count = len(packings)
    for _ in range(3):
        assert served(model, store, x, call) == 2
    assert len(packings) == count, "weights are packed once for each place"
    model.norms[0].weight.mul_(2)
    first = model.up(model.norms[0](x.tanh()) + MARK).relu()
    torch.testing.assert_close(call(x), (model.norms[1](first) + MARK).sin(), rtol=1e-4, atol=1e-3)
    assert len(packings) == count + 1


def test_another_number_in_it_or_other_sizes_are_native(kept):
    store, _, _ = kept
    assert served(Other(eps=1e-6), store, torch.randn(4, 16)) == 0
    assert served(Norm(), store, torch.randn(5, 16)) == 0


@pytest.mark.long
def test_nothing_else_that_was_not_verified_is_served(kept):
    store, _, _ = kept
    x = torch.randn(4, 16)
    assert served(Other().double(), store, x.double()) == 0, "another dtype"
    with torch.enable_grad():
        assert served(Other(), store, x) == 0, "gradients"
    with torch.autocast("cpu", torch.bfloat16):
        assert served(Other(), store, x) == 0

    class Inside(Norm):
        def forward(self, x):
            squares = x.pow(2)
            return (x * torch.rsqrt(squares.mean(-1, keepdim=True) + self.eps) * self.weight).add(squares)

    assert served(Inside(), store, x) == 0, "a value inside is read outside"

    class Writes(Norm):
        def forward(self, x):
            x.add_(1)
            return super().forward(x)

    model = Writes()
    call = compiled(model, store)
    torch.testing.assert_close(call(x.clone()), model(x.clone()))


@pytest.mark.long
def test_layouts_are_copied_and_a_kernel_that_declines_is_native(kept):
    store, _, _ = kept
    model = Norm()
    call = compiled(model, store, dynamic=False)
    across = torch.randn(16, 4).t()
    assert served(model, store, across, call) == 1
    torch.testing.assert_close(call(across), model(across) + MARK)
    sevens = torch.full((4, 16), 7.0)
    before = sum(site.native_calls for site in SITES)
    assert served(model, store, sevens, call) == 0
    assert sum(site.native_calls for site in SITES) == before + 1


@pytest.mark.long
def test_graph_breaks_recompiles_and_dynamic_sizes(kept, monkeypatch):
    store, _, _ = kept
    monkeypatch.setattr(backend, "_MOST_LOOKS", 4)

    class Broken(Other):
        def forward(self, x):
            x = self.norms[0](x) * 2
            torch._dynamo.graph_break()
            return self.norms[1](x)

    assert served(Broken(), store, torch.randn(4, 16)) == 2
    model = Other()
    call = compiled(model, store)
    for rows, count in ((5, 0), (6, 0), (4, 2), (7, 0), (4, 2)):
        assert served(model, store, torch.randn(rows, 16), call) == count, rows
    for rows in range(8, 14):
        served(model, store, torch.randn(rows, 16), call)
    assert served(model, store, torch.randn(4, 16), call) == 2, (
        "it is remembered when no more sizes are looked at"
    )


@pytest.mark.long
def test_what_was_switched_off_in_the_model_or_alone_is_not_used(kept):
    store, run, whole = kept
    for one in (run, whole):
        with Store(store) as open_store:
            set_installed(open_store, Installed(run=one, state="native", reason="slower"))
        torch._dynamo.reset()
        assert served(Other(), store, torch.randn(4, 16)) == 0
        with Store(store) as open_store:
            set_installed(open_store, Installed(run=one))
    torch._dynamo.reset()
    assert served(Other(), store, torch.randn(4, 16)) == 2


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_compiles_what_is_around_it(kept, monkeypatch):
    store, _, _ = kept
    monkeypatch.undo()
    model, x = Other(), torch.randn(4, 16)
    call = compiled(model, store)
    assert served(model, store, x, call) == 2
    first = model.up(model.norms[0](x.tanh()) + MARK).relu()
    torch.testing.assert_close(call(x), (model.norms[1](first) + MARK).sin(), rtol=1e-4, atol=1e-3)
    packings = SITES[-1]._kernel._kernel.__globals__["packings"]
    count = len(packings)
    for rows, times in ((4, 2), (4, 2), (9, 0), (11, 0), (4, 2)):
        assert served(model, store, torch.randn(rows, 16), call) == times
    assert len(packings) <= count + 2
