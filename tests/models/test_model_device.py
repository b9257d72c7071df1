"""Where models run: on the CPU, whatever else is there."""

import pytest
import torch

import kernelwright as kw
from kernelwright.devices import Device, detect
from kernelwright.errors import InputError

GPU = Device(kind="cuda", name="A GPU", cores=132, memory_bytes=1 << 36, torch_device="cuda:0")


def test_a_model_stays_on_the_cpu_and_another_device_is_refused(monkeypatch):
    monkeypatch.setattr(
        "kernelwright.models._device.detect", lambda name: detect("cpu") if name == "cpu" else GPU
    )
    model, inputs = torch.nn.Linear(4, 4), (torch.randn(2, 4),)
    with pytest.raises(InputError, match=r"on CPUs alone so far, not on A GPU; pass device='cpu'"):
        kw.plan(model, inputs=inputs, device="cuda:0")
    assert kw.plan(model, inputs=inputs, minutes=0.1).device == detect("cpu").fingerprint
