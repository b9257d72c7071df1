import pytest
from pydantic import ValidationError

from kernelwright.devices import Device
from kernelwright.devices.specs import Spec, spec_of, specs


def gpu(name: str) -> Device:
    return Device(kind="cuda", name=name, cores=1, memory_bytes=1, torch_device="cuda:0")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H200", "h200-sxm"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("NVIDIA L40S", "l40s"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("AMD Instinct MI300X", "mi300x"), ("AMD Instinct MI250X", "mi250x"), ("NVIDIA B200", "b200"),
    ],
)  # fmt: skip
def test_every_model_is_found_by_the_drivers_name(name: str, file: str) -> None:
    assert spec_of(gpu(name)) is specs()[file]


@pytest.mark.parametrize("name", ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA GB200", "NVIDIA T4"])
def test_other_models_are_not_taken_for_them(name: str) -> None:
    assert spec_of(gpu(name)) is None


@pytest.mark.parametrize("file", specs())
def test_numbers_are_in_base_units_and_plausible(file: str) -> None:
    spec = specs()[file]
    assert 5e11 < spec.bandwidth.value < 1e13
    rates = {name: p.value for name, p in spec.peaks().items() if p.unit == "flop"}
    assert all(1e12 < rate < 1e16 for rate in rates.values())
    assert rates["tensor-bfloat16"] >= rates.get("float32", 0)
    assert all(p.source for p in spec.peaks().values())


def test_a_number_without_a_source_is_refused() -> None:
    with pytest.raises(ValidationError, match="source"):
        Spec.model_validate({"name": "n", "matches": ["n"], "bandwidth": {"value": 1.0}})
