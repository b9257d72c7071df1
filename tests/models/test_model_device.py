"""Where models run: on the CPU, or on a GPU, which `cpu:0` stands for here."""

import pytest
import torch

import kernelwright as kw
from kernelwright.devices import Device, detect, peaks_of
from kernelwright.errors import InputError
from kernelwright.models import Patch, plan_sizes, sizes_of
from kernelwright.models._clock import DeviceClock, HostClock
from kernelwright.records import TensorSpec

GPU = Device(kind="cuda", name="A GPU", cores=132, memory_bytes=1 << 36, torch_device="cpu:0")
HIP = GPU.model_copy(update={"kind": "hip", "name": "Another"})
SIZED = "import torch\n\ndef build(rows=2):\n    return torch.nn.Linear(4, 4), (torch.ones(rows, 4),)\n"


class Ticks:
    """A clock for which each mark is a microsecond later, reached once all before are settled."""

    def __init__(self):
        self.now, self.settled = 0, 0

    def mark(self):
        self.now += 1
        return self.now

    def settle(self):
        self.settled = self.now

    def between_us(self, first, last):
        assert last <= self.settled
        return float(last - first)


@pytest.fixture
def devices(monkeypatch):
    found = {"cpu": detect("cpu"), "cuda": GPU, "hip": HIP}
    for name in ("_device", "_install"):
        monkeypatch.setattr(f"kernelwright.models.{name}.detect", found.__getitem__)
    monkeypatch.setattr("kernelwright.models._plan.peaks_of", lambda device: peaks_of(found["cpu"]))
    clocks = []
    monkeypatch.setattr(
        "kernelwright.models._clock.DeviceClock", lambda place: clocks.append(Ticks()) or clocks[-1]
    )
    return clocks


def test_models_run_on_the_cpu_where_no_device_is_named_and_amds_gpus_are_refused(devices):
    model, inputs = torch.nn.Linear(4, 4), (torch.randn(2, 4),)
    with pytest.raises(
        InputError, match=r"on CPUs and NVIDIA's GPUs so far, not on Another; pass device='cpu'"
    ):
        kw.plan(model, inputs=inputs, device="hip")
    assert kw.plan(model, inputs=inputs, minutes=0.1).device == detect("cpu").fingerprint
    assert not devices


def test_training_stays_on_the_cpu(devices):
    with pytest.raises(InputError, match="training is optimised on CPUs alone so far, not on A GPU"):
        kw.models.optimize_training(torch.nn.Linear(4, 4), inputs=(torch.randn(2, 4),), device="cuda")


def test_a_plan_for_a_gpu_is_timed_there_by_its_clock_and_leaves_the_model_where_it_is(devices):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up = torch.nn.Linear(64, 64)

        def forward(self, x):
            assert x.device == self.up.weight.device
            return torch.relu(self.up(x)) * torch.arange(64, device=x.device)

    model = Model()
    before = [p.data_ptr() for p in model.parameters()]
    plan = kw.plan(model, inputs=(torch.randn(8, 64),), device="cuda", minutes=0.1)
    assert plan.device == GPU.fingerprint
    assert (plan.time_us, plan.operators_us) == (1.0, 0.0)  # between two marks, which is the clock's own time
    assert plan.whole is not None and len(devices) == 1
    assert [p.data_ptr() for p in model.parameters()] == before


def test_sizes_on_a_gpu_are_weighed_by_its_clock(devices, tmp_path):
    (file := tmp_path / "sized.py").write_text(SIZED)
    plan = plan_sizes(
        f"{file}:build", [sizes_of("rows=2:1"), sizes_of("rows=8:3")], device="cuda", minutes=0.1
    )
    assert [p.plan.device for p in plan.parts] == [GPU.fingerprint] * 2
    assert len(devices) == 4


def test_a_patch_serves_the_device_that_it_was_verified_on_alone(monkeypatch):
    model, x = torch.nn.Linear(4, 4).eval(), torch.ones(2, 4)
    spec = TensorSpec(name="x", shape=(2, 4), dtype="float32")
    call = kw.models.load_model(model, (x,)).whole.call
    there, given = model.to("meta"), x.to("meta")
    patch = Patch(there, lambda x, *weights: x, ("weight", "bias"), (spec,), call, place="meta")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    with torch.no_grad(), patch:
        there(given)
        assert there(given) is given
        model.to_empty(device="cpu")
        there(x)
        assert (patch.calls, patch.native_calls) == (1, 2)
        model.to("meta")
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
        there(given)
        assert (patch.calls, patch.native_calls) == (1, 3)


def test_clocks_of_the_processor_are_in_microseconds_and_of_a_gpu_need_one():
    clock = HostClock(iter([1.0, 3.0]).__next__)
    assert clock.between_us(clock.mark(), clock.mark()) == 2e6
    if not torch.cuda.is_available():
        with pytest.raises((RuntimeError, AssertionError)):
            DeviceClock("cuda:0").mark()
