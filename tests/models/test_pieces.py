"""A model whose graph breaks on its values: kernels serve its pieces, whatever branch a call takes."""

import copy
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from tests.models.conftest import SMALL, two_regions, written
from tests.models.planted import accept
from tests.models.test_dynamo_regions import KERNEL, MARK
from torch import nn

from kernelwright.api.installed import recheck_installed, remove
from kernelwright.api.recheck import Recheck
from kernelwright.cli import main
from kernelwright.deploy import Installed, set_installed
from kernelwright.devices import detect
from kernelwright.errors import InputError
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.models import (
    ModelResult,
    Patch,
    RegionOutcome,
    capture_model,
    dynamo_backend,
    load_model,
    optimize_model,
    patch,
)
from kernelwright.models import _plan as planning
from kernelwright.models._assemble import Accepted
from kernelwright.models._assemble_pieces import assemble_pieces
from kernelwright.models._dynamo_regions import SITES
from kernelwright.models._identity import identity_of
from kernelwright.models._records import MODEL_RESULT
from kernelwright.models._task import region_task
from kernelwright.models._timing import untimed
from kernelwright.models._unusual import reads_values
from kernelwright.models._whole_judge import WholeJudge
from kernelwright.models._whole_task import whole_task
from kernelwright.records import DecisionStatus, Interval
from kernelwright.store import Store
from kernelwright.tasks import Problem

BRANCHING = (
    SMALL
    + """

class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(Norm() for _ in range(2))

    def forward(self, x):
        x = self.norms[0](x)
        if x.sum() > 0:
            return self.norms[1](x) * 2
        return x - 1


def build_branching():
    return Branching().eval(), (torch.ones(4, 16),)
"""
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A store with an accepted program of a model whose graph breaks: its result, target, and the norms' kernel."""
    folder = tmp_path_factory.mktemp("pieces")
    path = written(folder, "branching.py", BRANCHING)
    target = f"{path}:build_branching"
    loaded = load_model(target)
    captured = capture_model(loaded)
    (capture,) = capture_model(load_model(path)).pieces
    region = next(r for r in two_regions(capture).regions if r.label == "norms.0")
    task = region_task(capture, region, untimed(capture))
    whole = whole_task(loaded, captured, {p.name: untimed(p) for p in captured.pieces})
    with Store(folder) as store:
        run = accept(store, task, KERNEL)
        accepted = Accepted(region, task, store.evaluations(run)[0].candidate)
        judged = accept(store, whole.task, candidate=assemble_pieces(whole.task, [accepted]))
        outcome = RegionOutcome(
            region=region.key, label=region.label, uses=2, runs=(run,), speedup=2.0, expected_us=1.0, kept=True,
            reason="",
        )  # fmt: skip
        result = ModelResult(
            model="branching", device=detect("cpu").fingerprint, run=judged, decision=DecisionStatus.IMPROVED,
            speedup=Interval(median=2.0), baseline="compile", eager_speedup=2.0, expected=(1.0, 2.0, 3.0),
            regions=(outcome,), pieces=True, weights=whole.weights, call=loaded.whole.call,
            identity=identity_of(loaded, None, whole.task),
        )  # fmt: skip
        store.keep(MODEL_RESULT, judged, {judged: result.to_json()})
    return folder, result, target, accepted


@pytest.fixture
def patched(kept):
    store, result, target, _ = kept
    model = load_model(target).module
    with torch.no_grad(), patch(model, result, store=store) as one:
        assert isinstance(one, Patch)
        yield one, model


def marked(model, x):
    """Return what the model answers with the kernel, which adds a mark."""
    first = model.norms[0](x) + MARK
    return (model.norms[1](first) + MARK) * 2 if first.sum() > 0 else first - 1


def test_kernels_serve_the_pieces_of_every_branch(patched):
    one, model = patched
    names = list(model.state_dict())
    x = torch.ones(4, 16)
    torch.testing.assert_close(model(x), model.norms[1](model.norms[0](x)) * 2), "the first call is native"
    for gain in (1.0, -300.0, 1.0):
        model.norms[0].weight.data.fill_(gain)
        torch.testing.assert_close(model(x), marked(model, x))
    assert (one.calls, one.native_calls) == (3, 1) and list(model.state_dict()) == names
    other = copy.deepcopy(model)
    other.norms[0].weight.data.fill_(3.0)
    other(x)
    torch.testing.assert_close(other(x), marked(other, x))
    one.remove()
    assert model(x).abs().max() < 1000 and "forward" not in vars(model)


def test_kernels_in_pieces_pack_their_weights_outside_of_calls(kept):
    store, result, _, _ = kept
    with Store(store) as one:
        task, candidate = one.task(one.run(result.run).task), one.evaluations(result.run)[0].candidate
    language, workload = get_language("torch"), task.workloads[0]
    kernel = language.load(candidate, Path(language.build(candidate).artefact), workload.outputs)
    packings = kernel.__globals__["_module0"].packings
    called = prepared(kernel, [spec.name for spec in workload.state])
    x, weights = torch.ones(4, 16), list(Problem(task).state(workload, seed=0).values())
    for weight in weights:
        weight.fill_(2.0)
        called.follow(*weights)
        before = len(packings)
        answer = called(x, *weights)
        assert len(packings) == before > 0, "a timed call does not pack"
    first = 2.0 * torch.nn.functional.rms_norm(x, (16,), eps=1e-5) + MARK
    torch.testing.assert_close(
        answer, (2.0 * torch.nn.functional.rms_norm(first, (16,), eps=1e-5) + MARK) * 2
    )


def test_what_was_not_verified_is_native(patched):
    one, model = patched
    x = torch.ones(4, 16)
    model(x)
    model(torch.ones(5, 16))
    with torch.enable_grad():
        assert model(x).requires_grad
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
    model.train()
    model(x)
    model.eval()
    assert (one.calls, one.native_calls) == (0, 5)


def test_a_kernel_that_declines_leaves_its_region_to_torch(patched):
    _, model = patched
    x = torch.full((4, 16), 7.0)
    model(torch.ones(4, 16))
    native = model.norms[0](x)
    torch.testing.assert_close(model(x), (model.norms[1](native) + MARK) * 2)


def test_the_package_runs_without_kernelwright(kept, tmp_path):
    """Its kernel serves both branches in a process that cannot import Kernelwright."""
    store, result, _, _ = kept
    assert main(["export", result.run, "--to", str(tmp_path / "made"), "--store", str(store)]) == 0
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(tmp_path / "made")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.split() == ["True"] * 3, done.stderr


def test_it_is_listed_reported_rechecked_and_removed_like_any_other(kept, tmp_path, capsys):
    place, result, target, _ = kept
    page = tmp_path / "report.html"
    assert main(["report", result.run, "--to", str(page), "--candidates", "--store", str(place)]) == 0
    with Store(place) as store:
        (judged,) = store.evaluations(result.run)
    assert judged.candidate.key in page.read_text()
    assert main(["kernels", "--store", str(place)]) == 0 and result.run in capsys.readouterr().out
    packages = []

    def judge_again(folder, **_):
        packages.append([p.name for p in folder.glob("*/specialisations/*/*")])
        return (Recheck(candidate="c", status="no longer holds", reason="slow", claimed=None, speedup=None),)

    with Store(place) as store:
        try:
            (found,) = recheck_installed(store, [result.run], judge_again=judge_again)
            assert found.switched and {"patched.py", "branching.py", "part0.py"} <= set(packages[0])
            with pytest.raises(InputError, match="switched to native: slow"):
                patch(load_model(target).module, result, store=place)
            remove(store, result.run)
            with pytest.raises(InputError, match="removed by its owner"):
                patch(load_model(target).module, result, store=place)
        finally:
            set_installed(store, Installed(run=result.run))


def test_files_of_the_model_are_its_own_whatever_else_has_their_names(kept, monkeypatch):
    store, result, target, _ = kept
    other = types.ModuleType("branching")
    monkeypatch.setitem(sys.modules, "branching", other)
    model = load_model(target).module
    with torch.no_grad(), patch(model, result, store=store) as one:
        x = torch.ones(4, 16)
        model(x)
        torch.testing.assert_close(model(x), marked(model, x))
        assert one.calls == 1 and sys.modules["branching"] is other


def test_regions_of_pieces_are_judged_together_by_the_judge_of_whole_models(kept):
    _, _, target, accepted = kept
    plan = planning.planned(target, device=detect("cpu"))
    assert plan.plan.whole is None and any(
        "_local_scalar_dense.default reads values" in said for said in plan.plan.native
    )
    assert {r.uses for r in plan.plan.regions if r.region == accepted.region.key} == {2}, (
        "equal regions of two pieces"
    )
    whole = whole_task(plan.loaded, plan.captured, plan.timed)
    judge = WholeJudge(plan, (), {"store": None}, 0.0)
    made = judge.assembled([accepted])
    assert made.key == assemble_pieces(whole.task, [accepted]).key


PROGRAM = """
import sys, torch
sys.path[:0] = [sys.argv[1]]
sys.modules["kernelwright"] = None
import build_branching_whole as package
with torch.no_grad():
    model, mark = package.Module(), 100.0
    x = torch.ones(4, 16)
    for gain in (1.0, -300.0, 2.0):
        model.inner.norms[0].weight.fill_(gain)
        first = model.inner.norms[0](x) + mark
        wanted = (model.inner.norms[1](first) + mark) * 2 if first.sum() > 0 else first - 1
        print(torch.allclose(model(x), wanted, rtol=1e-4))
"""
READERS = {
    "aten._local_scalar_dense.default": lambda x: x if x.max() > 5 else -x,
    "tolist": lambda x: x * x.tolist()[0],
    "numpy": lambda x: x * float(x.numpy()[0]),
    "aten.index.Tensor": lambda x: x[x > 0],
    "": lambda x: x.masked_fill(x > 0, 1.0),
}


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_values_is_seen(reader):
    class Model(nn.Module):
        def forward(self, x):
            return READERS[reader](x)

    assert reads_values(Model(), [torch.ones(3)]) == reader


SEARCHED = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=192):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Branchy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Sequential(Block(), Block()), nn.Sequential(Block(), Block())

    def forward(self, x):
        x = self.first(x)
        if x.abs().max() > 50.0:
            x = x / x.abs().max()
        return self.second(x)


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x.tanh()).sin()


def build():
    torch.manual_seed(0)
    return Branchy().eval(), (torch.randn(64, 192),)


def build_other():
    return Other().eval(), (torch.randn(64, 192),)
"""


@pytest.mark.long
@pytest.mark.needs("C++ compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_real_search_judged_end_to_end_and_served_in_another_model(tmp_path):
    path = written(tmp_path, "branchy.py", SEARCHED)
    result = optimize_model(path, minutes=5.0, store=tmp_path, baselines=("eager", "compile"))
    assert result.improved and result.pieces, result.reason
    model, usual, rare = load_model(path).module, torch.randn(64, 192), 1000 * torch.randn(64, 192)
    with torch.no_grad():
        wanted = [model(x) for x in (usual, rare)]
        with patch(model, result, store=tmp_path) as one:
            for x, right in zip((usual, rare), wanted, strict=True):
                torch.testing.assert_close(model(x), right, rtol=1e-3, atol=1e-4)
            assert one.calls == 2
        other = load_model(f"{path}:build_other").module
        compiled = torch.compile(other, backend=dynamo_backend, options={"store": tmp_path})
        before = sum(site.calls for site in SITES)
        torch.testing.assert_close(compiled(usual), other(usual), rtol=1e-3, atol=1e-4)
        served = sum(site.calls for site in SITES) - before
    blocks = [r for r in result.regions if r.kept and r.label.endswith("first.0")]
    assert served == len(blocks)
