"""Wrong calls of every public function end in one clear error, and never in a crash."""

import inspect

import pytest
import torch
from tests.forked import run
from tests.ops.wrong.fuzz import fuzzed, references, unclear
from tests.ops.wrong.legal import LEGAL

from kernelwright import ops
from kernelwright.errors import ArgumentError

CONVENTIONS = {"AdamW", "Adafactor", "Lion", "KMeans", "MiniBatchKMeans"}
"""Classes with the conventions of torch and scikit-learn; estimators are called by functions that fit them."""
BATCHES = 4
"""Processes that share a family's calls, so that a slow machine ends each before its deadline."""
RECORDS = {"Experts", "Load", "PackedWeight", "Packed", "QuantizedExperts", "Report"}
"""What functions return."""


def test_every_public_function_has_a_legal_call_that_runs():
    for name in ops.families():
        calls = LEGAL[name]()
        public = {n for n in ops.family(name).__all__ if callable(getattr(ops.family(name), n))}
        assert {function.__name__ for function, _ in calls} >= public - CONVENTIONS - RECORDS, name
        for function, arguments in calls:
            assert set(inspect.signature(function).parameters) or arguments
            function(**arguments)


@pytest.mark.parametrize("family", ops.families())
def test_a_few_wrong_calls_of_each_function_are_refused_clearly(family):
    counts, findings = fuzzed(family, 12)
    assert not findings
    assert set(counts.values()) == {12}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(7, 7 + BATCHES))
@pytest.mark.parametrize("family", ops.families())
def test_thousands_of_wrong_calls_of_each_function_are_refused_clearly(family, seed, tmp_path):
    words = ["-m", "tests.ops.wrong.fuzz", family, 2000 // BATCHES, seed, tmp_path / "call"]
    done = run(words, cwd=".", timeout=1500)
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr[-2000:]}\nthe last call: {(tmp_path / 'call').read_text().partition(chr(10))[0]}"
    )


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (None, "ran"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "RuntimeError: mat1"),
        (ArgumentError("f.g: y is 3; expected 2"), "names no argument"),
        (ArgumentError("f.g: x is 3; expected 2"), ""),
    ],
)
def test_an_error_that_is_not_clear_is_found(error, problem):
    assert unclear(error, {"x"}).startswith(problem)
    assert bool(unclear(error, {"x"})) == bool(problem)


def test_a_wrong_answer_of_a_kernel_would_be_found(monkeypatch):
    (op, *_) = (op for op in ops.ops_of(ops.activations) if op.name == "activation")
    monkeypatch.setattr(op, "check", lambda *_: None)
    _, findings = fuzzed("activations", 60)
    assert findings
    with references():
        assert not torch.isnan(ops.activations.silu(torch.ones(3))).any()


X, HEADS = torch.ones(1, 2, 4, 4), torch.ones(1, 2, 3, 4)
FOUND = {
    "values that torch makes up": lambda: ops.conv.conv2d(X, torch.ones(3, 2, 1, 1, device="meta")),
    "a stride that overflows": lambda: ops.conv.conv2d(X, torch.ones(3, 2, 1, 1), stride=1 << 62),
    "a cap below float32": lambda: ops.attention.attention(HEADS, HEADS, HEADS, soft_cap=1e-300),
    "a cap of logits below float32": lambda: ops.logits.logsumexp(X[0, 0], X[0, 0], softcap=1e-300),
    "a scale beyond float32": lambda: ops.scan.linear_attention(HEADS, HEADS, HEADS, scale=1e300),
    "a gradient without values": lambda: ops.optim.lion_([X], [X.to("meta")], [X]),
}


@pytest.mark.parametrize("name", FOUND)
def test_calls_that_gave_wrong_answers_are_refused(name):
    with pytest.raises(ArgumentError, match=r" is .+; expected .+"):
        FOUND[name]()


def test_a_mask_without_ranges_sees_nothing():
    out = ops.attention.attention(HEADS, HEADS, HEADS, torch.zeros(3, 0, 2, dtype=torch.int32))
    assert torch.equal(out, torch.zeros_like(HEADS))
