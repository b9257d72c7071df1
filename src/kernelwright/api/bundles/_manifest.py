"""What a bundle asks for, what comes back, and how files are hashed."""

import hashlib
import json
import re
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ...devices import Device
from ...errors import InputError
from ...records import SCHEMA_VERSION, Bound, Record

ASKED, TASK, RUN, WHEELS, WHEEL_LIST = "bundle.json", "task.json", "run.py", "wheels", "wheels.txt"
CANDIDATES, MANIFEST = "candidates", "manifest.json"
RECORDS, DEVICE, EVALUATIONS = "records", "device.json", "evaluations"
R = TypeVar("R", bound=Record)
KEPT = "bundle"
"""Kind under which the store keeps what was asked for."""
KEPT_FILES = "bundle-files"
"""Kind under which the store keeps, for each bundle, the hash of its manifest, so of every file that it wrote."""
KEPT_RECORDS = "bundle-records"
"""Kind under which the store keeps the hash of the records' manifest of each import, and its run."""
_GPU = re.compile(r"sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4}")


class Asked(Record):
    """One candidate of a bundle."""

    candidate: str
    """Its key."""
    seeds: tuple[int, ...]
    """The seeds to verify it with, drawn after its content was fixed; no worker sees them."""


class Bundle(Record):
    """What a bundle asks for; named by the hash of its content."""

    schema_version: int = SCHEMA_VERSION
    """Version of the records."""
    task: str
    """The task's key."""
    task_name: str
    """The task's name."""
    target: str
    """Where to run it: `sm_90`, `gfx942`, `cpu`."""
    candidates: tuple[Asked, ...]
    """What is to be judged, in this order."""
    baselines: tuple[str, ...]
    """What each must beat."""
    harness: str
    """Version of the judge with its baselines."""
    wheel: str
    """SHA-256 of the wheel of Kernelwright that judges."""
    run: str = ""
    """The run that the candidates come from, if they do."""


class Returned(Record):
    """What was there when the records were made."""

    bundle: str
    """Key of the bundle."""
    device: Device
    """The device that was timed."""
    environment: dict[str, str]
    """System, versions, isolation."""
    bounds: tuple[Bound, ...]
    """The least time of each search workload, by the device's measured peaks; none if nothing was right."""
    notes: tuple[str, ...] = ()
    """Which baselines were not measured, and why."""
    absent: tuple[tuple[str, str], ...] = ()
    """The same as pairs of baseline and workload."""


def check_target(target: str) -> str:
    """Return the target if it can be one, else raise an `InputError`.

    Example:
        >>> check_target("sm_90"), check_target("cpu")
        ('sm_90', 'cpu')
    """
    if target != "cpu" and not _GPU.fullmatch(target):
        raise InputError(f"target {target!r} is not known; expected sm_80, sm_90, ..., gfx942, ... or cpu")
    return target


def kind_of(target: str) -> str:
    """Return the kind of device of a target.

    Example:
        >>> kind_of("sm_90"), kind_of("gfx942"), kind_of("cpu")
        ('cuda', 'hip', 'cpu')
    """
    return "cpu" if target == "cpu" else "hip" if target.startswith("gfx") else "cuda"


def is_of(target: str, device: Device) -> bool:
    """Tell whether a device is of the target.

    Example:
        >>> gpu = Device(kind="cuda", name="g", cores=1, memory_bytes=1, torch_device="cuda:0",
        ...              facts={"capability": "9.0"})
        >>> is_of("sm_90", gpu), is_of("sm_100", gpu), is_of("cpu", gpu)
        (True, False, False)
    """
    return device.target == target.rstrip("af") if target.startswith("sm_") else device.target == target


def hashes_of(folder: Path, paths: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by their path in the folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
    }


def files_of(folder: Path, bundle: Bundle) -> str:
    """Return a bundle's key and the hash of the manifest that stands in its folder."""
    return f"{bundle.key} {hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()}"


def write_manifest(folder: Path, paths: list[Path]) -> None:
    """Write the hashes of files into the folder's manifest."""
    (folder / MANIFEST).write_text(json.dumps(hashes_of(folder, paths), indent=1) + "\n")


def check_manifest(folder: Path, below: tuple[str, ...] = ()) -> None:
    """Compare the files with the folder's manifest.

    Args:
        folder: It has a `manifest.json`.
        below: Subfolders that may hold no other files than the manifest names.

    Raises:
        InputError: a file is missing, was changed, or was added.
    """
    try:
        known = json.loads((folder / MANIFEST).read_text())
        named = {str(name): str(digest) for name, digest in known.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(
            f"{folder / MANIFEST} cannot be read ({type(error).__name__}); expected the hashes of its files"
        ) from None
    for name, digest in named.items():
        path = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not path.is_file():
            raise InputError(
                f"{path} is missing, although the manifest names it; bring the whole folder back"
            )
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise InputError(f"{path} is not what was written: its hash differs from the manifest's")
    for inner in below:
        for path in sorted(p for p in (folder / inner).rglob("*") if p.is_file()):
            if path.relative_to(folder).as_posix() not in {*named, MANIFEST}:
                raise InputError(f"{path} is not in the manifest; remove what was added")


def read_record(kind: type[R], path: Path) -> R:
    """Read a record from a file.

    Raises:
        InputError: there is no such file, or it is no such record.
    """
    try:
        return kind.from_json(path.read_text())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError(f"{path} is no {kind.__name__}: {error.errors()[0]['msg']}") from None
