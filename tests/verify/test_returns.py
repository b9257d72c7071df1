"""Outputs are to be where the calls run, which is not where the judge works out what is right."""

from types import SimpleNamespace

import pytest
import torch

from kernelwright.records import TensorSpec
from kernelwright.verify.checks.returns import Returns


@pytest.mark.parametrize(
    ("device", "output", "status"),
    [
        ("cuda:0", "cuda:0", "pass"),
        ("cuda:0", "cpu", "fail"),
        ("cpu", "cpu", "pass"),
        ("cpu", "meta", "fail"),
    ],
)
def test_outputs_belong_on_the_device_of_the_calls(device, output, status):
    right = torch.zeros(2)
    fact = SimpleNamespace(plain=True, dtype="float32", shape=(2,), device=output)
    seen = SimpleNamespace(
        case=SimpleNamespace(
            workload=SimpleNamespace(outputs=(TensorSpec(name="y", shape=(2,), dtype="float32"),)),
            outputs=(SimpleNamespace(output=right),),
        ),
        fetched=SimpleNamespace(facts=(fact,), outputs=(right,)),
        device=device,
    )
    assert Returns().examine(seen).status == status
