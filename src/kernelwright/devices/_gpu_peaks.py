"""Measure a GPU's peaks with torch, and take what torch cannot measure from its published specification."""

from collections.abc import Callable

from ._device import Device
from ._peak import Peak
from .specs import spec_of

_BYTES = 1 << 30
_MATRIX_DTYPES = ("float32", "float64", "bfloat16", "float16")
_MATRIX_SIZE = {"float64": 4096}
_REPEATS = 10
_GRAPH_LAUNCHES = 100
_GRAPH_PASSES = 20
"""Passes over memory in one graph: a single one over what fits in L2 takes no longer than launching it does."""


def gpu_peaks(device: Device) -> dict[str, Peak]:
    """Measure bandwidth of DRAM and L2, matrix products and launches; take the rest from the specification."""
    values = _bandwidth(device, "dram", min(_BYTES, device.memory_bytes // 16))
    l2 = device.cache("l2")
    if l2 is not None:
        values |= _bandwidth(device, "l2", 3 * l2.size_bytes // 4)
    for dtype in _MATRIX_DTYPES:
        values[f"tensor-{dtype}"] = _matrix_peak(device, dtype)
    values["launch"] = _launch_peak(device)
    spec = spec_of(device)
    if spec is not None:
        for name, peak in spec.peaks().items():
            values.setdefault(name, peak)
    return values


def _bandwidth(device: Device, level: str, size: int) -> dict[str, Peak]:
    import torch

    count = size // 3 // 4
    a, b, c = (torch.ones(count, device=device.torch_device) for _ in range(3))
    patterns: dict[str, tuple[int, Callable[[], object]]] = {
        "read": (1, a.sum),
        "write": (1, lambda: a.fill_(1.0)),
        "copy": (2, lambda: b.copy_(a)),
        "add": (3, lambda: torch.add(a, b, out=c)),
    }
    return {
        f"{level}.{name}": Peak(
            value=parts * 4 * count * _GRAPH_PASSES / _least_seconds(_in_graph(run, _GRAPH_PASSES)),
            unit="bytes",
            source=f"measured: torch {name} of {parts * 4 * count} bytes in a CUDA graph",
        )
        for name, (parts, run) in patterns.items()
    }


def _matrix_peak(device: Device, dtype: str) -> Peak:
    import torch

    n = _MATRIX_SIZE.get(dtype, 8192)
    a, b = (torch.ones(n, n, dtype=getattr(torch, dtype), device=device.torch_device) for _ in range(2))
    seconds = _least_seconds(lambda: torch.mm(a, b))
    return Peak(value=2 * n**3 / seconds, unit="flop", source=f"measured: torch.mm, {n} x {n} {dtype}")


def _launch_peak(device: Device) -> Peak:
    """Time the smallest kernel inside a CUDA graph, without host overhead."""
    import torch

    tensor = torch.ones(1, device=device.torch_device)
    replay = _in_graph(lambda: tensor.add_(1), _GRAPH_LAUNCHES)
    rate = _GRAPH_LAUNCHES / _least_seconds(replay)
    return Peak(value=rate, unit="launches", source="measured: one-element add in a CUDA graph")


def _in_graph(run: Callable[[], object], times: int) -> Callable[[], object]:
    """Return what does something so many times without the host in between."""
    import torch

    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            run()
    return graph.replay


def _least_seconds(run: Callable[[], object]) -> float:
    """Return the second smallest of a few durations by device events, to exclude an outlier."""
    import torch

    durations: list[float] = []
    run()
    for _ in range(_REPEATS):
        begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        begin.record()
        run()
        end.record()
        end.synchronize()
        durations.append(float(begin.elapsed_time(end)) / 1e3)
    return max(sorted(durations)[1], 1e-9)
