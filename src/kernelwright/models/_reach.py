"""Device → how fast products run here in programs of the schedule engine, and what a bound becomes with that.

A peak is what multiply-adds in registers reach. Products of a model read weights that lie beyond the second cache, and
how near they come to the peak is the machine's: 0.9 of it on one with 32 registers of 64 bytes, 0.6 with 16 of 32.
Where two threads share a core it is also the moment's: a third less while the other one works. So it is measured with
each plan, whose other times are of the same moment.

Covers: products of float32 on CPUs (half a second, and some five to compile, once a machine).
Does not cover: convolutions and attention apart, which count as products; half precision.
"""

import time
from pathlib import Path
from statistics import median

from ..compiler.printers import cpp
from ..devices import Device, Peak
from ..languages import get_language
from ..languages._destination import load_library
from ..languages.cpp import LIBRARY
from ..languages.vectors import headers_of
from ..records import Bound, BuildStatus, Candidate, SourceFile
from ..tasks import one_thread

_SOURCE = Path(__file__).with_name("reach.cpp")
_ROWS = 64
_WEIGHTS_BYTES = 8 << 20
_REPEATS = 100


def reach_of(device: Device) -> Peak | None:
    """Measure how many operations of products all cores of a CPU make in a second; None elsewhere or uncompiled."""
    return _measured(_candidate(), device) if device.kind == "cpu" else None


def reached_us(found: Bound, products: Peak | None) -> float:
    """Return the microseconds of a bound if products run no faster than they do in programs here."""
    if products is None:
        return found.attainable_us
    ports_us = sum(
        max(t.time_us, 1e6 * t.amount / products.value) if t.unit == "flop" else t.time_us
        for t in found.terms if t.kind == "ports"
    )  # fmt: skip
    return max(found.time_us, ports_us) + sum(t.time_us for t in found.terms if t.kind == "after")


def _candidate() -> Candidate:
    text = _SOURCE.read_text()
    folder = Path(str(cpp.__file__)).parent
    return Candidate(
        sources=(SourceFile(path=_SOURCE.name, text=text), *headers_of(text, (folder,))), language="cpp",
        entry=f"{_SOURCE.name}:products", style="destination", flags=("-Wno-psabi",),
    )  # fmt: skip


def _measured(candidate: Candidate, device: Device) -> Peak | None:
    """Measure on one core by the thread's processor time, which other work leaves alone but for shared caches."""
    import torch

    build = get_language("cpp").build(candidate)
    if build.status is not BuildStatus.OK or build.artefact is None:
        return None
    products = load_library(Path(build.artefact) / LIBRARY).get_function("products")
    weights = torch.ones(_WEIGHTS_BYTES // 4)
    durations = []
    with one_thread():
        for _ in range(_REPEATS):
            began = time.thread_time()
            products(weights)
            durations.append(time.thread_time() - began)
    flop = 2.0 * _ROWS * weights.numel()
    rate = device.cores * flop / median(durations)
    return Peak(value=rate, unit="flop", source=f"measured: models/reach.cpp, {device.cores} times one core")
