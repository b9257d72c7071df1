"""The device that models run on."""

from ..devices import Device, detect
from ..errors import InputError

_SERVED = frozenset({"cpu", "cuda"})


def device_of_models(device: str | None) -> Device:
    """Return the device of that name, on which models are planned, optimised and patched; the CPU where none is named.

    Raises:
        InputError: another kind of device is named.
    """
    used = detect(device or "cpu")
    if used.kind not in _SERVED:
        raise InputError(
            f"whole models are planned and optimised on CPUs and NVIDIA's GPUs so far, not on {used.name}; pass "
            "device='cpu', or optimise an op of the model, in a file of its own, on that device"
        )
    return used


def cpu_of_training(device: str | None) -> Device:
    """Return the CPU, on which alone training is optimised.

    Raises:
        InputError: another device is named.
    """
    used = detect(device or "cpu")
    if used.kind != "cpu":
        raise InputError(
            f"training is optimised on CPUs alone so far, not on {used.name}; pass device='cpu', or leave training out"
        )
    return used
