"""Tensors of a definition's workloads that are stored in safetensors files.

Covers: files next to the definition or by full path, checked against the declared shape and dtype; what was read
when the task was made is used from then on, checked by each file's hash.
Does not cover: URLs (`https://...`), which are not fetched; values other than those stored, so that what is
stored stays the same in every call and only the other inputs are fresh.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue

from ...errors import MissingToolError, TaskError
from ...records import ScalarSpec, SourceFile, TensorSpec
from ..inputs._draw import dtype_name
from ._expression import names_in

STORED = "stored.json"
"""The file in a reference that records where its stored inputs are."""
Place = Mapping[str, str]
"""Where one input is stored: `path`, `tensor_key`, and the `sha256` of the file."""


class Stored:
    """What the workloads of one definition have stored, each under the sizes it was stored at."""

    def __init__(self, entries: Sequence[tuple[Mapping[str, int], Mapping[str, Place]]] = ()) -> None:
        """Add sizes and where the inputs stored at these are."""
        self._entries = tuple(entries)
        self._read: dict[str, dict[str, torch.Tensor]] = {}

    @classmethod
    def of(cls, files: Sequence[SourceFile]) -> "Stored":
        """Read back what `files` recorded."""
        text = next((f.text for f in files if f.path == STORED), "[]")
        return cls([(entry["axes"], entry["inputs"]) for entry in json.loads(text)])

    @property
    def axes(self) -> frozenset[str]:
        """The axes that cannot change: something is stored at their sizes."""
        return frozenset().union(*(sizes for sizes, _ in self._entries))

    @property
    def names(self) -> frozenset[str]:
        """The inputs that are stored, the same in every workload."""
        return frozenset().union(*(inputs for _, inputs in self._entries))

    def files(self) -> tuple[SourceFile, ...]:
        """Record where everything is stored, for the task's record; nothing if nothing is stored."""
        found: JsonValue = [
            {"axes": dict(sizes), "inputs": {name: dict(place) for name, place in inputs.items()}}
            for sizes, inputs in self._entries
        ]
        return (SourceFile(path=STORED, text=json.dumps(found, indent=1)),) if found else ()

    def at(self, axes: Mapping[str, int]) -> Mapping[str, Place]:
        """Return where the inputs of a workload of these sizes are stored; raises `TaskError` if there are none."""
        for sizes, inputs in self._entries:
            if all(axes.get(name) == size for name, size in sizes.items()):
                return inputs
        if not self._entries:
            return {}
        known = "; ".join(", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes, _ in self._entries)
        raise TaskError(f"inputs are stored at {known} only, and not at {dict(axes)}")

    def read(self, axes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Return copies of the inputs that are stored for a workload of these sizes, by name."""
        return {name: self._tensor(name, place).clone() for name, place in self.at(axes).items()}

    def check(self, axes: Mapping[str, int], specs: Sequence[TensorSpec | ScalarSpec], origin: str) -> None:
        """Check that stored tensors match the definition; raises `TaskError` if not."""
        declared, place = {s.name: s for s in specs if isinstance(s, TensorSpec)}, self.at(axes)
        for name, tensor in self.read(axes).items():
            want, found = declared[name], (tuple(tensor.shape), dtype_name(tensor.dtype))
            if found != (want.shape, want.dtype):
                raise TaskError(
                    f"{origin}: input {name!r} is stored as {found[1]}{list(found[0])} in {place[name]['path']}; "
                    f"expected {want.dtype}{list(want.shape)}"
                )

    def _tensor(self, name: str, place: Place) -> torch.Tensor:
        path, key = place["path"], place["tensor_key"]
        if path not in self._read:
            data = _bytes(Path(path), name)
            if hashlib.sha256(data).hexdigest() != place["sha256"]:
                raise TaskError(
                    f"{path} is not the file any more that the task was made with; run `optimize` anew"
                )
            self._read[path] = _tensors(data, path)
        if key not in self._read[path]:
            raise TaskError(f"{path} holds no tensor {key!r}; it holds {', '.join(sorted(self._read[path]))}")
        return self._read[path][key]


def stored_in(path: Path, definition: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> Stored:
    """Find what the workloads have stored, and the axes whose sizes that pins.

    Raises:
        TaskError: an input is stored in some workloads only, or every tensor is.
    """
    given = [line.get("inputs") or {} for line in lines]
    by_line = [{n: g for n, g in one.items() if g.get("type") == "safetensors"} for one in given]
    names = {name for one in by_line for name in one}
    if not names:
        return Stored()
    for missing in (name for one in by_line for name in sorted(names - set(one))):
        raise TaskError(
            f"{path}: input {missing!r} is stored in some workloads and not in others; expected all or none"
        )
    inputs = definition["inputs"]
    if names >= {n for n, spec in inputs.items() if spec.get("shape") is not None}:
        raise TaskError(
            f"{path}: every tensor is stored, so that a kernel which keeps its answers could not be told from one that "
            "computes; give one input as 'random' at least"
        )
    pinned = {str(s) for n in names for s in inputs[n].get("shape") or ()}
    while more := {n for s in pinned for n in names_in(_expression(definition["axes"], s))} - pinned:
        pinned |= more
    sizes = [{n: int(v) for n, v in line["axes"].items() if n in pinned} for line in lines]
    places = [{n: _place(n, given, path.parent) for n, given in one.items()} for one in by_line]
    return Stored(list(zip(sizes, places, strict=True)))


def _place(name: str, given: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return where an input given as safetensors is stored; a relative path is from the definition's folder.

    Raises:
        TaskError: the workload gives no location, or nothing is there.
    """
    path, key = given.get("path"), given.get("tensor_key")
    if not isinstance(path, str) or not isinstance(key, str):
        raise TaskError(
            f"stored input {name!r} needs 'path' and 'tensor_key'; the workload gives {dict(given)!r}"
        )
    full = (folder / path).resolve()
    return {"path": str(full), "tensor_key": key, "sha256": hashlib.sha256(_bytes(full, name)).hexdigest()}


def _expression(axes: Mapping[str, Any], text: str) -> str:
    """Return the expression of a derived axis; other sizes unchanged."""
    axis = axes.get(text) or {}
    return str(axis.get("expression", axis.get("expr", text)))


def _bytes(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(
            f"input {name!r} is stored in {str(path)!r}, which cannot be read ({error.strerror}); "
            "expected a safetensors file, by its path from the definition's folder"
        ) from None


def _tensors(data: bytes, path: str) -> dict[str, torch.Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load
    except ImportError:
        raise MissingToolError(
            "inputs stored as safetensors need the package safetensors; `pip install 'kernelwright[safetensors]'`"
        ) from None
    try:
        return load(data)
    except SafetensorError as error:
        raise TaskError(f"{path} is no safetensors file: {error}") from None
