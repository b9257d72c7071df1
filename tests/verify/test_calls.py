"""What a task lets a kernel call: allowed operators, forbidden ones, and those too small to count."""

from types import SimpleNamespace

import pytest
import torch

from kernelwright.sandbox import Seen
from kernelwright.verify.checks.calls import _forbidden

CASE = SimpleNamespace(outputs=(SimpleNamespace(output=torch.empty(32, 32)),))


def said(rule, launches=1, libraries=(), **operators):
    return _forbidden(Seen(operators, launches, libraries), CASE, rule)


@pytest.mark.parametrize(
    ("rule", "operators", "allowed"),
    [
        ("custom-only", {"empty": 1024, "copy_": 1024, "_to_copy": 1024}, True),
        ("custom-only", {"mm": 1024}, False),
        ("custom-only", {"_softmax": 1024}, False),
        ("custom-only", {"mul": 4}, True),
        ("library-allowed", {"mm": 1024, "convolution": 1024, "_fft_r2c": 1024}, True),
        ("library-allowed", {"mm": 1024, "add": 1024}, False),
    ],
)
def test_operators(rule, operators, allowed):
    assert (said(rule, **operators) == "") is allowed


def test_a_custom_only_answer_needs_a_launch_and_no_library():
    assert "no kernel of its own" in said("custom-only", launches=0)
    assert "libopenblas" in said("custom-only", libraries=("libopenblas.so.0",))
    assert said("custom-only", libraries=("libgomp.so.1", "libstdc++.so.6")) == ""
    assert said("custom-only", libraries=("libtilelang.so", "libtvm_runtime.so", "libz3.so")) == ""
    assert said("library-allowed", libraries=("libopenblas.so.0",)) == ""
    assert "/tmp/libgomp.so.1" in said("custom-only", libraries=("/tmp/libgomp.so.1",))


def test_a_library_s_operator_needs_no_launch():
    assert said("library-allowed", launches=0, mm=1024) == ""
    assert "no kernel of its own" in said("library-allowed", launches=0, empty=1024)
