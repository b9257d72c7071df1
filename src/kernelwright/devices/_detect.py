"""Find the devices of this machine by name."""

from ..errors import MissingToolError, NotFoundError
from ._cpu import cpu
from ._device import Device
from ._gpu import gpus


def devices() -> list[Device]:
    """List the devices of this machine: the CPU, then the GPUs."""
    return [cpu(), *gpus()]


def detect(name: str | None = None) -> Device:
    """Find one device.

    Args:
        name: `cpu`, `cuda` (the first GPU), `cuda:1`; `hip` means `cuda`. None: the first GPU
            if there is one, else the CPU.

    Raises:
        NotFoundError: The name is not of that form, or there is no GPU of that index.
        MissingToolError: A GPU was asked for and torch sees none.

    Example:
        >>> detect("cpu").torch_device
        'cpu'
    """
    if name == "cpu":
        return cpu()
    if name is None:
        return next(iter(gpus()), None) or cpu()
    kind, _, index = name.partition(":")
    if kind not in ("cuda", "hip") or not (index.isdigit() or name == kind):
        raise NotFoundError(f"no device is called {name!r}; expected 'cpu', 'cuda' or 'cuda:INDEX'")
    found = gpus()
    if not found:
        raise MissingToolError(
            f"{name!r} was asked for, but torch sees no GPU; use --device cpu, or install a torch build "
            "for your GPU and its driver (https://pytorch.org/get-started/locally/)"
        )
    if int(index or 0) >= len(found):
        names = ", ".join(f"'{d.torch_device}'" for d in found)
        raise NotFoundError(f"no device {name!r}; here are {names}")
    return found[int(index or 0)]
