"""The GPUs that torch can reach: NVIDIA through CUDA, AMD through HIP."""

from ..records import Scalar
from ._device import Cache, Device

_PROPERTIES = {
    "shared_memory_per_multiprocessor": "shared_bytes_per_sm",
    "shared_memory_per_block_optin": "shared_bytes_per_block",
    "regs_per_multiprocessor": "registers_per_sm",
    "max_threads_per_multi_processor": "threads_per_sm",
    "warp_size": "warp_size",
    "gcnArchName": "architecture",
}
"""Torch's name of a device property → the fact's name. Source: torch.cuda.get_device_properties."""


def gpus() -> list[Device]:
    """Describe every GPU that torch can use; empty if there is none."""
    import torch

    if not torch.cuda.is_available():
        return []
    return [_gpu(index) for index in range(torch.cuda.device_count())]


def _gpu(index: int) -> Device:
    import torch

    properties = torch.cuda.get_device_properties(index)
    hip = torch.version.hip is not None
    facts: dict[str, Scalar] = {
        ours: getattr(properties, theirs)
        for theirs, ours in _PROPERTIES.items()
        if hasattr(properties, theirs)
    }
    facts["capability"] = f"{properties.major}.{properties.minor}"
    facts["runtime"] = torch.version.hip if hip else torch.version.cuda
    driver = getattr(torch._C, "_cuda_getDriverVersion", None)
    if driver is not None and not hip:
        facts["driver"] = int(driver())
    cores, l2 = int(properties.multi_processor_count), int(getattr(properties, "L2_cache_size", 0))
    return Device(
        kind="hip" if hip else "cuda",
        name=str(properties.name),
        cores=cores,
        memory_bytes=int(properties.total_memory),
        torch_device=f"cuda:{index}",
        caches=(Cache(level="l2", size_bytes=l2, shared_by=cores),) if l2 else (),
        facts=facts,
    )
