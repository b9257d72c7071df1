"""Program, Case → a folder that a browser opens: the page, the code generator, the program, its values."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ._program import Plain, Program

HERE = Path(__file__).parent
PARTS = ("jit", "page")
"""Folders of modules that are copied as they are."""
LARGEST_BYTES = 256 << 20
"""A page's values stay below this."""


@dataclass(frozen=True)
class Expected:
    """What one output should be."""

    truth: NDArray[np.float64]
    """The reference in float64, flat."""
    allowed: NDArray[np.float64]
    """How far each element may be off."""


@dataclass(frozen=True)
class Case:
    """Values to run a program on, and what should come of them."""

    values: Mapping[str, NDArray[np.float32]]
    """Inputs and state by name, flat."""
    expected: Sequence[Expected]
    """One for each output."""


def values_of(program: Program, case: Case, roles: Sequence[str] = ("input", "state", "constant")) -> bytes:
    """Return the floats of a program's tensors of these roles, one after the other."""
    parts = [
        np.asarray(t.values, np.float32) if t.role == "constant" else case.values[t.name]
        for t in program.tensors if t.role in roles
    ]  # fmt: skip
    return b"".join(np.ascontiguousarray(p, "<f4").tobytes() for p in parts)


def write_page(
    folder: Path,
    program: Program,
    case: Case,
    *,
    name: str,
    budget_s: float,
    onnx: bytes | None = None,
    shaders: Sequence[dict[str, Plain]] = (),
    fresh: int = 0,
) -> None:
    """Write the page of a program into a folder.

    Args:
        folder: Made if it is not there.
        program: What runs.
        case: What it is tuned on; its expected values stand in the page, which checks every variant against them.
        name: What the page calls it.
        budget_s: Seconds that tuning may take.
        onnx: The same as an ONNX model, to be timed against it where onnxruntime-web is served.
        shaders: Variants in WGSL, with their buffers and launches, for browsers with WebGPU.
        fresh: How many more inputs the page asks its server for; it sends back what came of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        shutil.copytree(HERE / part, folder / part, dirs_exist_ok=True)
    shutil.move(folder / "page" / "index.html", folder / "index.html")
    outputs = b"".join(
        np.ascontiguousarray(a, "<f8").tobytes() for e in case.expected for a in (e.truth, e.allowed)
    )
    (folder / "values.bin").write_bytes(values_of(program, case))
    (folder / "expected.bin").write_bytes(outputs)
    task: dict[str, Plain] = {
        "name": name, "program": program.plain(), "budget_s": budget_s, "fresh": fresh, "onnx": onnx is not None,
        "shaders": list(shaders),
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(task))
    if onnx is not None:
        (folder / "model.onnx").write_bytes(onnx)
