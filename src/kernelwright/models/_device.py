"""The device that models run on."""

from ..devices import Device, detect
from ..errors import InputError


def device_of_models(device: str | None) -> Device:
    """Return the CPU, on which models are planned, optimised and patched; also where no device is named.

    Raises:
        InputError: another device is named.
    """
    used = detect(device or "cpu")
    if used.kind != "cpu":
        raise InputError(
            f"whole models are planned and optimised on CPUs alone so far, not on {used.name}; pass device='cpu', or "
            "optimise an op of the model, in a file of its own, on that device"
        )
    return used
