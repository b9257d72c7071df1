"""How fast a CPU computes functions, reaches memory and is called: measured once, cached by fingerprint."""

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from ..config import Settings
from ..devices import Device, Peak
from ..languages._destination import Destination, load_library
from ..languages.cpp import LIBRARY, Cpp
from ..languages.vectors import headers_of
from ..records import BuildStatus, Candidate, Record, SourceFile, TensorSpec

METHOD = 4
"""Version of the measurement and of the functions: rates of another version are measured again."""
FRESH = "fresh"
"""Name of the rate of fresh memory, in bytes a second."""
PAGES = "pages"
"""Name of the rate of pages that are reached at random, as rows of a large table are."""
CALL = "call"
"""Name of the rate of calls that do nothing, from Python, with a result of their own."""
_SOURCE = Path(__file__).with_name("rates.cpp")
_NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh",
    "softplus", "mish", "div", "sqrt", "pow", "sin", "cos",
)  # fmt: skip
_ELEMENTS = 1 << 19
_FRESH_BYTES, _PAGES, _CALLS = 64 << 20, 1 << 16, 2000
_REPEATS = 9


class Rates(Record):
    """Elements a second of each function in float32, bytes of fresh memory, pages, of all cores; calls a second."""

    method: int = METHOD
    """Version of the measurement."""
    device: str
    """Fingerprint of the device."""
    values: dict[str, Peak] = {}
    """By name of a function, `fresh`, `pages` and `call`; empty where there is no compiler."""


def rates_of(device: Device, settings: Settings | None = None) -> Rates:
    """Return the rates of a CPU, from the cache or by measuring them now (a second, and three to compile).

    Example:
        >>> from kernelwright.devices import detect
        >>> rates_of(detect("cpu")).method
        4
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
    """Measure on one core by the thread's CPU time, which other work leaves alone."""
    text = _SOURCE.read_text()
    candidate = Candidate(
        sources=(SourceFile(path=_SOURCE.name, text=text), *headers_of(text)), language="cpp",
        entry=f"{_SOURCE.name}:fresh_memory", style="destination", flags=("-Wno-psabi", "-Wno-uninitialized"),
    )  # fmt: skip
    build = Cpp(settings).build(candidate)
    if build.status is not BuildStatus.OK or build.artefact is None:
        return {}
    library = load_library(Path(build.artefact) / LIBRARY)
    source = f"measured: bound/rates.cpp, {device.cores} times one core"
    values = {}
    for name in _NAMES:
        seconds = _least_seconds(library.get_function(f"{name}_rate"), _ELEMENTS)
        values[name] = Peak(value=device.cores * _ELEMENTS / seconds, unit="elements", source=source)
    seconds = _least_seconds(library.get_function("fresh_memory"), _FRESH_BYTES)
    values[FRESH] = Peak(value=device.cores * _FRESH_BYTES / seconds, unit="bytes", source=source)
    seconds = _page_seconds(library.get_function("random_pages"))
    values[PAGES] = Peak(value=device.cores * _PAGES / seconds, unit="elements", source=source)
    return values | {CALL: _call_rate(library.get_function("nothing"))}


def _page_seconds(random_pages: Callable[..., object]) -> float:
    """Measure in memory as a tensor has it: in small pages."""
    import torch

    memory = torch.ones(_FRESH_BYTES // 4)
    return _least_seconds(lambda count: random_pages(memory, count), _PAGES)


def _call_rate(nothing: Callable[..., object]) -> Peak:
    """Measure calls of a kernel that does nothing, as its loader makes them: with a fresh result."""
    import torch

    given = torch.zeros(1)
    call = Destination(nothing, (TensorSpec(name="out", shape=(1,), dtype="float32"),))

    def calls(count: int) -> None:
        for _ in range(count):
            call(given)

    seconds = _least_seconds(calls, _CALLS)
    return Peak(value=_CALLS / seconds, unit="launches", source="measured: bound/rates.cpp, from Python")


def _least_seconds(call: Callable[[int], object], argument: int) -> float:
    """Return the second least of some durations: a disturbance only ever makes a call longer."""
    durations = []
    for _ in range(_REPEATS):
        began = time.thread_time()
        call(argument)
        durations.append(time.thread_time() - began)
    return sorted(durations)[1]
