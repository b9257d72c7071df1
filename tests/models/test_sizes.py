"""A model at the sizes that matter: judged at each, decided by the weighted time of all, patched at all of them."""

import json

import pytest
import torch
from tests.models.conftest import written
from tests.models.planted import accept

import kernelwright.models as models
from kernelwright.cli import main
from kernelwright.devices import detect
from kernelwright.errors import InputError, TaskError
from kernelwright.models import (
    Captured,
    ModelResult,
    SizedOutcome,
    load_model,
    optimize_sizes,
    patch,
    sizes_of,
)
from kernelwright.models._records import MODEL_RESULT
from kernelwright.models._sizes import decided
from kernelwright.models._whole_task import whole_task
from kernelwright.records import DecisionStatus, Interval
from kernelwright.store import Store

MODEL = """
import torch
from torch import nn


class Sums(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 2.0))

    def forward(self, x, scale=None):
        y = x * self.weight + 1.0
        return y if scale is None else y * scale["by"]


def build(batch=2, seq=3):
    return Sums().eval(), (torch.ones(batch, seq, 8),)


def nested(batch=2):
    return Sums().eval(), ((torch.ones(batch, 8),), {"scale": {"by": torch.ones(batch, 1)}})


def wide(batch=2, seq=8):
    return Sums(seq).eval(), (torch.ones(batch, seq),)
"""
DECODE, PREFILL = "batch=1,seq=1:80", "batch=2,seq=16:20"


def result_of(name, speedup, run="", weights=(), call=""):
    """Return a result with this speedup, accepted if that is above 1."""
    improved = speedup > 1.0
    return ModelResult(
        model=name, device=detect("cpu").fingerprint, run=run, baseline="compile", eager_speedup=speedup * 1.5,
        decision=DecisionStatus.IMPROVED if improved else DecisionStatus.INCONCLUSIVE,
        speedup=Interval(median=speedup, low=speedup * 0.9, high=speedup * 1.1) if improved else None,
        expected=(1.0, 1.0, 1.0), regions=(), weights=weights, call=call, reason="" if improved else "planted",
    )  # fmt: skip


class Planted:
    """Accepts, for each workload of a model, a program that adds the number of its input's elements."""

    def __init__(self, speedups):
        self.speedups, self.minutes = speedups, {}

    def __call__(self, loaded, *, minutes, store, **_):
        self.minutes[loaded.name] = minutes
        speedup = self.speedups[len(self.minutes) - 1]
        whole = whole_task(loaded, Captured(()), {})
        inputs = ", ".join(f"x{i}" for i in range(len(loaded.whole.tensors)))
        text = f"def run({inputs}, weight):\n    return x0 * weight + 1.0 + 100.0 * x0.numel()\n"
        with Store(store) as kept:
            run = accept(kept, whole.task, text)
            result = result_of(loaded.name, speedup, run, whole.weights, loaded.whole.call)
            kept.keep(MODEL_RESULT, run, {run: result.to_json()})
        return result


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, "sums.py", MODEL)


NONE = ("", "batch", "batch=x:1", "batch=1:much", "batch=0:1", "batch=1:0", "batch=1:nan", "1=1")


@pytest.mark.parametrize("text", NONE)
def test_what_names_no_sizes_is_refused(text):
    with pytest.raises(InputError, match="expected"):
        sizes_of(text)


def test_the_decision_is_by_the_time_of_all_calls_together():
    def outcome(weight, us, speedup):
        return SizedOutcome(sizes={"batch": 1}, weight=weight, eager_us=us, result=result_of("m", speedup))

    found = decided("m", [outcome(0.8, 150.0, 2.0), outcome(0.2, 1000.0, 1.0)])
    assert found.improved and found.speedup.median == pytest.approx(280.0 / 240.0), (
        "in native times of 100 and 1000 us"
    )
    assert (
        found.speedup.low == pytest.approx(280.0 / (80.0 / 1.8 + 200.0))
        and found.speedup.low < found.speedup.high
    )
    rare = decided("m", [outcome(0.01, 150.0, 2.0), outcome(0.99, 1000.0, 1.0)])
    assert rare.decision is DecisionStatus.EQUAL and "of all calls together" in rare.reason
    none = decided("m", [outcome(0.5, 100.0, 1.0), outcome(0.5, 100.0, 1.0)])
    assert not none.improved and none.speedup.median == 1.0 and "at any of the sizes" in none.reason


def test_a_model_is_patched_at_all_its_sizes_and_native_at_others(path, tmp_path):
    planted, store = Planted((2.0, 1.5)), tmp_path / "store"
    found = optimize_sizes(
        f"{path}:build", [sizes_of(DECODE), sizes_of(PREFILL)], store=store, optimize=planted
    )
    assert found.improved and [o.weight for o in found.outcomes] == [0.8, 0.2]
    assert list(planted.minutes) == ["sums_batch1_seq1", "sums_batch2_seq16"]
    assert 1.2 < planted.minutes["sums_batch1_seq1"] < 9.9, (
        "minutes flow by the weighted time, and none is left out"
    )
    model = load_model(path).module
    for kernels in (found, "last", found.outcomes[0].result.run):
        with patch(model, kernels, store=store) as patched, torch.no_grad():
            for shape in ((1, 1, 8), (2, 16, 8)):
                x = torch.ones(shape)
                model(x)
                assert float(model(x)[0, 0, 0]) == 3.0 + 100.0 * x.numel()
            assert patched.calls == 2 and float(model(torch.ones(1, 2, 8))[0, 0, 0]) == 3.0
            assert (patched.calls, patched.native_calls) == (2, 3)
            model.weight.fill_(5.0)
            assert float(model(torch.ones(1, 1, 8))[0, 0, 0]) == 6.0 + 800.0
            model.weight.fill_(2.0)
        assert "forward" not in vars(model)


def test_inputs_in_dicts_are_told_apart_too(path, tmp_path):
    sizes = [sizes_of("batch=1"), sizes_of("batch=4")]
    found = optimize_sizes(f"{path}:nested", sizes, store=tmp_path / "store", optimize=Planted((2.0, 1.5)))
    model = load_model(f"{path}:nested").module
    with patch(model, found, store=tmp_path / "store") as patched, torch.no_grad():
        for rows, served in ((1, True), (4, True), (3, False)):
            x, scale = torch.ones(rows, 8), {"by": torch.ones(rows, 1)}
            model(x, scale=scale)
            assert float(model(x, scale=scale)[0, 0]) == 3.0 + served * 100.0 * x.numel()
        assert patched.calls == 2


def test_what_gains_too_little_in_all_is_not_installed(path, tmp_path):
    planted, store = Planted((1.001, 1.0)), tmp_path / "store"
    found = optimize_sizes(
        f"{path}:build", [sizes_of(DECODE), sizes_of(PREFILL)], store=store, optimize=planted
    )
    assert not found.improved
    model = load_model(path).module
    for kernels in (found, found.outcomes[0].result.run):
        with pytest.raises(InputError, match="nothing was accepted for sums: of all calls together"):
            patch(model, kernels, store=store)
    assert "forward" not in vars(model)


def test_sizes_that_change_weights_or_cannot_be_told_apart_are_refused(path, tmp_path):
    def asked(target, *texts):
        optimize_sizes(target, [sizes_of(t) for t in texts], store=tmp_path / "store", optimize=Planted(()))

    with pytest.raises(InputError, match=r"at batch=2,seq=9 the model has other weights .*'weight'"):
        asked(f"{path}:wide", "batch=2,seq=8", "batch=2,seq=9")
    with pytest.raises(InputError, match="name each once"):
        asked(f"{path}:build", DECODE)
    with pytest.raises(InputError, match="have the sizes of those at batch=2"):
        asked(f"{path}:build", "batch=2", "batch=2,seq=3")
    with pytest.raises(TaskError, match="unexpected keyword argument 'rows'"):
        asked(f"{path}:build", "rows=2", "rows=3")
    with pytest.raises(TaskError, match="takes no sizes"):
        asked("hf:bert", "batch=2", "batch=3")
    with pytest.raises(TaskError, match="takes no sizes"):
        asked(torch.nn.ReLU(), "batch=2", "batch=3")


def test_the_command_tells_each_workload(path, tmp_path, monkeypatch, capsys):
    optimize = models.optimize_sizes
    monkeypatch.setattr(
        models, "optimize_sizes", lambda target, sizes, **more: optimize(
            target, sizes, **{**more, "optimize": Planted((2.0, 1.0))}
        )
    )  # fmt: skip
    flags = ["--workload", DECODE, "--workload", PREFILL, "--store", str(tmp_path / "store")]
    assert main(["optimize", f"{path}:build", *flags]) == 0
    said = capsys.readouterr().out
    assert "batch=1,seq=1, 80% of the calls: 2.00x (1.80 to 2.20) against compile" in said
    assert "batch=2,seq=16, 20% of the calls: native: planted" in said
    assert main(["optimize", f"{path}:build", *flags, "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [o["sizes"]["seq"] for o in result["outcomes"]] == [1, 16] and result["speedup"]["median"] > 1
    assert main(["optimize", "examples/swiglu.py", *flags]) == 2
    assert "--workload is for whole models" in capsys.readouterr().err
