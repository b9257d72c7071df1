"""How a call with tensors on a GPU gets to its form, tried without one; forms are run in Triton's interpreter.

`python -m benchmarks.gpu.ops right` does it on a GPU.
"""

import json
import os
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from kernelwright import ops
from kernelwright.ops._core import gpu
from kernelwright.ops._core import op as op_of
from kernelwright.ops._core.gpu import GpuForm, add_product, form_for, forms_of, product
from kernelwright.ops.optim import _steps

CPU = torch.device("cpu")


@pytest.fixture
def silu():
    (op,) = (op for op in ops.ops_of(ops.activations) if op.name == "activation")
    op._said.clear()
    return op


def given(monkeypatch, form, why=""):
    """Let an op take float64 for a tensor on a GPU, with this form."""
    monkeypatch.setattr(op_of, "gpu_of", lambda _: CPU)
    monkeypatch.setattr(op_of, "form_for", lambda *_: (form, why))
    monkeypatch.setattr(op_of, "on", lambda _: nullcontext())


def test_a_form_runs_is_told_of_and_is_not_remembered(silu, monkeypatch):
    grad = []
    form = GpuForm(lambda *_: None, lambda x, curve: (grad.append(torch.is_grad_enabled()), x + curve)[1])
    given(monkeypatch, form)
    x = torch.ones(3, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            (one,) = ops.watch(lambda: silu(x, 2))
    assert (one.serves, one.why) == ("triton", "")
    assert torch.equal(silu(x, 2), x + 2)
    assert grad == [False] * 3
    assert silu._served is None or silu._served(x, 2) is None


def test_where_no_form_serves_the_reference_runs_and_says_so_once(silu, monkeypatch):
    given(monkeypatch, None, "a tensor is empty")
    x = torch.ones(3, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="activation runs its reference: a tensor is empty"):
        found = silu(x, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        silu(x, 0)
    assert torch.equal(found, torch.nn.functional.silu(x))


def test_why_no_form_serves(monkeypatch):
    form = GpuForm(lambda x, *_: None if x.dtype is torch.float32 else f"x is of {x.dtype}", lambda *_: None)
    x = torch.ones(2)
    monkeypatch.setattr(gpu, "forms_of", lambda _: ({"there": form}, ""))
    monkeypatch.setattr(gpu, "_too_old", lambda _: "")
    assert form_for(Path(), "there", CPU, (x, 1)) == (form, "")
    assert form_for(Path(), "elsewhere", CPU, (x,)) == (None, "it has no form for GPUs")
    assert form_for(Path(), "there", CPU, (x[:0],)) == (None, "a tensor is empty")
    assert form_for(Path(), "there", CPU, (x.double(),)) == (None, "x is of torch.float64")
    _, why = form_for(Path(), "there", CPU, (x, x.to("meta")))
    assert why == "tensors are on meta and on cpu"
    monkeypatch.setattr(gpu, "_too_old", lambda _: "forms were not run on it")
    assert form_for(Path(), "there", CPU, (x,)) == (None, "forms were not run on it")


def test_a_step_of_many_runs_its_form_and_tells_autograd(monkeypatch):
    moved = []
    form = GpuForm(lambda *_: None, lambda numbers, rows: moved.append((numbers, len(rows))))
    monkeypatch.setattr(_steps, "gpu_of", lambda _: CPU)
    monkeypatch.setattr(_steps, "form_for", lambda *_: (form, ""))
    monkeypatch.setattr(_steps, "on", lambda _: nullcontext())
    p, g, m = torch.ones(2), torch.ones(2), torch.zeros(2)
    before = p._version
    ops.optim.lion_([p], [g], [m], lr=0.5)
    assert moved == [((0.5, 0.9, 0.99, 0.0, False), 3)]
    assert p._version > before
    monkeypatch.setattr(_steps, "form_for", lambda *_: (None, "no form"))
    ops.optim.lion_([p], [g], [m], lr=0.5)
    assert p.tolist() == [0.5, 0.5]


def test_products_are_of_float32():
    a, b = torch.randn(3, 4).half(), torch.randn(4, 2).half()
    total = torch.ones(3, 2)
    assert product(a, b).dtype is torch.float32
    add_product(total, a, b)
    torch.testing.assert_close(total, 1 + a.float() @ b.float())


def test_masks_are_kept_for_each_device():
    mask = ops.attention.masks.Causal()
    here, there = mask.ranges(2, 3), mask.ranges(2, 3, torch.device("meta"))
    assert here.is_cpu and there.is_meta
    assert mask.ranges(2, 3, torch.device("meta")) is there


@pytest.mark.long
@pytest.mark.needs("triton")
def test_every_form_is_of_an_op_or_of_a_step():
    steps = {"optim_adamw_many", "optim_lion_many"}
    names = {op.name for name in ops.families() for op in ops.ops_of(ops.family(name))} | steps
    code = (  # in a process of its own: decorating a kernel looks at the environment
        "from pathlib import Path; import kernelwright.ops as ops; from kernelwright.ops._core.gpu import forms_of;"
        "print(*[n for f in ops.families() for n in forms_of(Path(ops.__file__).parent / f)[0]])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(found) <= names
    assert {"rms_norm", "attention", "moe_experts", *steps} <= set(found)


WITH_FORMS = sorted(path.parent.name for path in Path(ops.__file__).parent.glob("*/gpu.triton.py"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.needs("triton")
@pytest.mark.parametrize("which", [("--share", "0", "8"), ("--only-special",)], ids=["cases", "special"])
@pytest.mark.parametrize("family", [f for f in WITH_FORMS if f != "optim"])
def test_forms_are_right_in_the_interpreter(family, which):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu._ops.right", family, "--device", "cpu", "--seconds", "900", *which],
        env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=1000,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert rows[-1]["kind"] == "end"
    wrong = [row for row in rows if row.get("status") in ("wrong", "failed")]
    assert not wrong, wrong[:2]
    assert rows[-1]["left_out"] == 0
    assert any(row.get("ran", "").startswith("triton") for row in rows)
    assert forms_of(Path("nowhere")) == ({}, "it has no form for GPUs")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.needs("triton")
@pytest.mark.parametrize("name", ["lowbit", "loss", "optim", "decode", "odd"])
def test_every_way_is_right_in_the_interpreter(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.ops.gpu_forms", name], env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True, text=True, timeout=1000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.needs("triton")
@pytest.mark.parametrize("name", ["scan", "decode"])
def test_what_is_compiled_for_a_gpu_is_right_and_clean_in_the_executor(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.ops.gpu_forms", name, "executed"], capture_output=True, text=True, timeout=1000,
        env={k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
