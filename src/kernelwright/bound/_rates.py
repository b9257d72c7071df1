"""How fast a CPU computes functions, and gets fresh memory: measured once, cached by fingerprint."""

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from ..config import Settings
from ..devices import Device, Peak
from ..languages._destination import load_library
from ..languages.cpp import LIBRARY, Cpp
from ..languages.vectors import headers_of
from ..records import BuildStatus, Candidate, Record, SourceFile

METHOD = 1
"""Version of the measurement: rates of another version are measured again."""
FRESH = "fresh"
"""Name of the rate of fresh memory, in bytes a second."""
_SOURCE = Path(__file__).with_name("rates.cpp")
_NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh",
    "softplus", "mish", "div", "sqrt", "pow", "sin", "cos",
)  # fmt: skip
_ELEMENTS = 1 << 19
_FRESH_BYTES = 64 << 20
_REPEATS = 9


class Rates(Record):
    """Elements a second of each function in float32, of all cores together, and bytes a second of fresh memory."""

    method: int = METHOD
    """Version of the measurement."""
    device: str
    """Fingerprint of the device."""
    values: dict[str, Peak] = {}
    """By name of a function, and `fresh`; empty where there is no compiler."""


def rates_of(device: Device, settings: Settings | None = None) -> Rates:
    """Return the rates of a CPU, from the cache or by measuring them now (a second, and three to compile).

    Example:
        >>> from kernelwright.devices import detect
        >>> rates_of(detect("cpu")).method
        1
    """
    if device.kind != "cpu":
        return Rates(device=device.fingerprint)
    settings = settings or Settings.from_environment()
    path = settings.cache / "peaks" / f"rates-{device.fingerprint}.json"
    try:
        known = Rates.from_json(path.read_text())
        if (known.method, known.device) == (METHOD, device.fingerprint):
            return known
    except (OSError, ValidationError):
        pass
    found = Rates(device=device.fingerprint, values=_measured(device, settings))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.to_json())
    return found


def _measured(device: Device, settings: Settings) -> dict[str, Peak]:
    """Measure functions on one core by its CPU time, which other work leaves alone; fresh memory in all threads."""
    text = _SOURCE.read_text()
    candidate = Candidate(
        sources=(SourceFile(path=_SOURCE.name, text=text), *headers_of(text)), language="cpp",
        entry=f"{_SOURCE.name}:fresh_memory", style="destination", flags=("-Wno-psabi", "-Wno-uninitialized"),
    )  # fmt: skip
    build = Cpp(settings).build(candidate)
    if build.status is not BuildStatus.OK or build.artefact is None:
        return {}
    library = load_library(Path(build.artefact) / LIBRARY)
    values = {}
    for name in _NAMES:
        seconds = _least_seconds(library.get_function(f"{name}_rate"), _ELEMENTS, time.thread_time)
        source = f"measured: bound/rates.cpp, {device.cores} times one core"
        values[name] = Peak(value=device.cores * _ELEMENTS / seconds, unit="elements", source=source)
    seconds = _least_seconds(library.get_function("fresh_memory"), _FRESH_BYTES, time.perf_counter)
    source = "measured: bound/rates.cpp, all cores together"
    return values | {FRESH: Peak(value=_FRESH_BYTES / seconds, unit="bytes", source=source)}


def _least_seconds(call: Callable[[int], object], argument: int, clock: Callable[[], float]) -> float:
    """Return the second least of some durations: a disturbance only ever makes a call longer."""
    durations = []
    for _ in range(_REPEATS):
        began = clock()
        call(argument)
        durations.append(clock() - began)
    return sorted(durations)[1]
