"""`kernelwright doctor`: what is installed, what is missing, and what to do about it."""

import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from pydantic import JsonValue

from ..config import Settings
from ..errors import KernelwrightError
from ._common import Common, print_json

_PACKAGES = ("torch", "apache-tvm-ffi", "pydantic", "cyclopts", "triton", "pyopencl", "wgpu")
_REMEDIES = {
    "python": "install Python 3.11 or newer",
    "package": "make a new virtual environment and install kernelwright there",
    "device": "check that torch works here: python -c 'import torch; print(torch.ones(1))'",
    "peaks": "delete the folder of KERNELWRIGHT_CACHE; the next run measures them again",
    "language": "reinstall what it needs, or leave it out with --language",
    "profiler": "leave it out: nothing needs it",
    "browser": "leave it out: kernelwright web serve takes any browser",
    "sandbox": "KERNELWRIGHT_SANDBOX=auto, and a folder for temporary files with free space",
    "store": "--store FOLDER, or KERNELWRIGHT_STORE",
}
"""What to do if a probe itself failed, by area."""


@dataclass(frozen=True)
class Fact:
    """Result of one probe."""

    area: str
    name: str
    ok: bool
    what: str
    """What was found, or what is missing."""
    remedy: str = ""
    """What to do about it."""


def doctor(*, common: Common | None = None) -> int:
    """Show what is installed, what is missing, and what to do about it.

    Args:
        common: Flags of every command.
    """
    common = common or Common()
    facts: list[Fact] = []
    for fact in examine(common):
        facts.append(fact)
        if common.json:
            print_json("fact", **asdict(fact))
        else:
            mark = "ok     " if fact.ok else "missing"
            print(f"{mark}  {fact.area:9} {fact.name:14} {fact.what}")
            if fact.remedy and not fact.ok:
                print(f"{'':9}{'':10} {'':14} to have it: {fact.remedy}")
    missing: list[JsonValue] = [f"{f.area} {f.name}" for f in facts if not f.ok]
    if common.json:
        print_json("result", ok=not missing, missing=missing)
    else:
        print(f"{len(facts) - len(missing)} here, {len(missing)} missing; what is here is used")
    return 0


def examine(common: Common) -> Iterator[Fact]:
    """Examine the machine and yield one fact at a time; a failed probe is a fact too."""
    probes: dict[str, Callable[[], Iterable[Fact]]] = {
        "python": _python,
        "package": _packages,
        "device": _devices,
        "peaks": _peaks,
        "language": _languages,
        "profiler": _profilers,
        "browser": _browsers,
        "sandbox": _sandbox,
        "store": lambda: _store(common),
    }
    for area, probe in probes.items():
        yield from _guarded(area, "probe", probe)


def _guarded(area: str, name: str, probe: Callable[[], Iterable[Fact]]) -> Iterator[Fact]:
    # Doctor must not fail with the machine it examines: an error of a probe is what the user wants to see.
    try:
        yield from probe()
    except KernelwrightError as error:
        yield Fact(area, name, False, str(error), _REMEDIES[area])
    except Exception as error:  # noqa: BLE001 - a probe may raise anything; doctor must continue
        yield Fact(area, name, False, f"failed: {type(error).__name__}: {error}", _REMEDIES[area])


def _python() -> Iterator[Fact]:
    enough = sys.version_info >= (3, 11)
    yield Fact("python", platform.python_version(), enough, sys.executable, "install Python 3.11 or newer")


def _packages() -> Iterator[Fact]:
    for name in _PACKAGES:
        try:
            yield Fact("package", name, True, version(name))
        except PackageNotFoundError:
            yield Fact("package", name, False, "not installed", f"pip install {name}")


def _devices() -> Iterator[Fact]:
    from ..devices import devices

    here = devices()
    for device in here:
        caches = ", ".join(f"{c.level} {c.total_bytes >> 10} KiB" for c in device.caches)
        units = " ".join(device.vector_units)
        what = f"{device.name}, {device.cores} cores; {caches}; {units}".rstrip("; ")
        yield Fact("device", device.torch_device, True, what)
    driver = shutil.which("nvidia-smi") or shutil.which("rocm-smi")
    if driver and len(here) == 1:
        yield Fact(
            "device", "gpu", False, f"{driver} is here, but torch sees no GPU", "install a torch built for it"
        )


def _languages() -> Iterator[Fact]:
    from ..languages import language_names

    for name in language_names():
        yield from _guarded("language", name, partial(_language, name))


def _language(name: str) -> Iterator[Fact]:
    from ..languages import get_language

    found = get_language(name).available()
    yield Fact("language", name, found.ok, found.what, found.remedy)


def _profilers() -> Iterator[Fact]:
    from ..devices import devices
    from ..profile import PROFILERS

    here = devices()
    for profiler in PROFILERS:
        tried = [profiler.available(device) for device in here]
        found = next((one for one in tried if one.ok), tried[0])
        yield Fact("profiler", profiler.name, found.ok, found.what, found.remedy)


def _browsers() -> Iterator[Fact]:
    from ..web import REMEDY, browser

    found = browser()
    yield Fact("browser", "chromium", found is not None, found or "none on the PATH for `web tune`", REMEDY)


def _store(common: Common) -> Iterator[Fact]:
    from ..store import Store

    with Store(common.folder) as store:
        yield Fact("store", "sqlite", True, f"{common.folder}, {len(store.runs())} runs")


def _peaks() -> Iterator[Fact]:
    from ..devices import cached_peaks, devices

    for device in devices():
        found = cached_peaks(device)
        if found is None:
            yield Fact("peaks", device.torch_device, True, "not measured yet; the first run measures them")
        else:
            top = ", ".join(f"{name} {peak.value:.3g}" for name, peak in found.values.items())
            top += "; on a busy machine, so perhaps too low" if found.disturbed else ""
            yield Fact("peaks", device.torch_device, True, top)


def _sandbox() -> Iterator[Fact]:
    from ..sandbox import LAYERS, PROMISES, Pool
    from ..system.landlock import landlock_version

    with Pool(Settings.from_environment(), arena_bytes=1 << 20) as pool:
        absent = [layer for layer in LAYERS if layer not in pool.layers]
        yield Fact("sandbox", "layers", True, ", ".join(pool.layers))
        if absent or pool.isolation == "none":
            words = [*absent, *(["closed files"] if pool.isolation == "none" else [])]
            yield Fact(
                "sandbox", "absent", False, ", ".join(words), "install bubblewrap; KERNELWRIGHT_SANDBOX=auto"
            )
        yield Fact("sandbox", "promises", True, "; ".join(pool.promises))
        if broken := [promise for promise in PROMISES if promise not in pool.promises]:
            yield Fact(
                "sandbox",
                "not promised",
                False,
                "; ".join(broken),
                "install bubblewrap, or use a newer Linux",
            )
    version = landlock_version()
    what = (
        f"closed in by Landlock {version}" if version else "no Landlock: sources may include any file of ours"
    )
    yield Fact("sandbox", "compilers", version > 0, what, "use Linux 5.13 or later with Landlock switched on")
