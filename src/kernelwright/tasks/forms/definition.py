"""The definition form: the JSON that FlashInfer-Bench and SOL-ExecBench share.

Covers: const, var and expression axes, tensor and scalar inputs, `random`, `scalar` and `safetensors` workload inputs,
a generator named by `custom_inputs_entrypoint`, tolerances, `constraints` on axes, offsets that end at an axis.
Does not cover: `constraints` on the values of tensors other than `axis == offsets[-1].item()`, which are noted and not
enforced; of several workloads of the same sizes all but the first; workloads in which every tensor is stored, so that
none is fresh.

Source: NVIDIA SOL-ExecBench and FlashInfer-Bench, definition, workload and solution schemas.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...errors import TaskError
from ...records import (
    Contract,
    Distribution,
    Reference,
    ScalarSpec,
    SourceFile,
    Split,
    Task,
    TensorSpec,
    Workload,
)
from ..workloads._free_sizes import left_free
from ..workloads._shrink import fit_axes
from ..workloads.splits import Plan, derive
from ._expression import holds, size
from ._shape_probe import called
from ._source import read_text, run_reference
from ._stored import Stored, stored_in
from .kernelbench import seeded

_DEFINITION, _REFERENCE = "definition.json", "reference.py"
_DTYPES = {"float8_e4m3": "float8_e4m3fn"}
_PROBABILITIES = "probs"
"""The name of an input that is a distribution over its last axis, as FlashInfer-Bench draws it."""
_ENDS = re.compile(r"(\w+) == (\w+)\[-1\]\.item\(\)")
"""Says that a tensor of offsets ends at the size of an axis."""
_KEYS = ("name", "axes", "inputs", "outputs", "reference")


def load(
    path: Path,
    text: str,
    *,
    max_elements: int | None = None,
    contract: Contract | None = None,
    fixed: Sequence[str] = (),
) -> Task:
    """Make a task of a definition; its workloads are inside it, or in `workload.jsonl` next to it."""
    definition = _parse(text, path)
    lines = _workloads(path, definition)
    maker = _Maker(definition, path, stored_in(path, definition, lines))
    fitted = [fit_axes(maker.make_like(line), maker.sizes(line), max_elements) for line in lines]
    searches = tuple(workload for workload, _ in fitted)
    for workload in searches:
        maker.stored.check(workload.axes, workload.arguments, str(path))
    distinct = _distinct(searches)
    left = len(searches) - len(distinct)
    again = [f"left out: {left} workloads of the same sizes as an earlier one"] if left else []
    said = map(str, definition.get("notes") or ())
    notes = tuple(
        dict.fromkeys((*said, *maker.notes, *(note for _, more in fitted for note in more), *again))
    )
    files = [
        SourceFile(path=_REFERENCE, text=definition["reference"]),
        SourceFile(path=_DEFINITION, text=text),
    ]
    reference = Reference(
        files=(*files, *maker.stored.files()), entry=f"{_REFERENCE}:run", style="function", origin=str(path)
    )
    task = Task(
        name=definition["name"], form="definition", reference=reference, workloads=distinct,
        contract=contract or _contract(lines), notes=notes,
    )  # fmt: skip
    return derive(task, Plan(make=maker.make_like(lines[0]), free=left_free(maker.free, fixed, str(path))))


class Live:
    """Runs `run`, and the definition's own generator if it names one; reads what is stored."""

    def __init__(self, task: Task) -> None:
        self._reference = task.reference
        self._stored = Stored.of(task.reference.files)
        text = next(f.text for f in task.reference.files if f.path == _DEFINITION)
        self._definition = _parse(text, Path(task.reference.origin))

    def reference(self, workload: Workload) -> Reference:  # noqa: ARG002  the same for all
        """Return the reference's source unchanged."""
        return self._reference

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:  # noqa: ARG002
        """Return nothing: `run` is a function."""
        return ()

    def given(self, workload: Workload, seed: int) -> list[Any]:
        """Return what is stored, and what the definition's generator makes of axes and scalars, by position."""
        scalars = {s.name: s.value for s in workload.arguments if isinstance(s, ScalarSpec)}
        values: dict[str, Any] = dict(self._stored.read(workload.axes))
        if entry := self._definition.get("custom_inputs_entrypoint"):
            values |= self._generated(str(entry), workload, scalars, seed)
        return [values.get(s.name, scalars.get(s.name)) for s in workload.arguments]

    def _generated(
        self, entry: str, workload: Workload, scalars: Mapping[str, Any], seed: int
    ) -> Mapping[str, Any]:
        origin, generate = self._reference.origin, getattr(run_reference(self._reference), entry, None)
        if generate is None:
            raise TaskError(f"{origin}: the reference defines no {entry}(), its custom_inputs_entrypoint")
        with seeded(seed):
            values: Mapping[str, Any] = called(
                generate, f"{origin}: {entry}()", {**workload.axes, **scalars}, torch.device("cpu")
            )
        missing = [s.name for s in workload.arguments if s.name not in values and s.name not in scalars]
        if missing:
            raise TaskError(f"{origin}: {entry}() returned no {missing[0]!r}")
        return values

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the definition at these sizes, scalars as the workload has them; `run` is not run."""
        scalars = {
            s.name: {"type": "scalar", "value": s.value}
            for s in workload.arguments if isinstance(s, ScalarSpec)
        }  # fmt: skip
        maker = _Maker(self._definition, Path(self._reference.origin), self._stored)
        return maker.make_like({"inputs": scalars})(workload.axes | dict(axes))


class _Maker:
    """Instantiates workloads of one definition."""

    def __init__(self, definition: Mapping[str, Any], path: Path, stored: Stored) -> None:
        self._definition, self._path, self.stored = definition, path, stored
        axes = definition["axes"]
        self._varying = [n for n, a in axes.items() if a.get("type") == "var"]
        self.free = tuple((n,) for n in self._varying if n not in stored.axes)
        self._fixed = {n: int(a["value"]) for n, a in axes.items() if a.get("type") == "const"}
        self._derived = {n: str(a.get("expression", a.get("expr"))) for n, a in axes.items()
                         if a.get("type") in {"expr", "expression"}}  # fmt: skip
        unknown = [n for n in axes if n not in {*self._fixed, *self._derived, *self._varying}]
        if unknown:
            raise TaskError(f"{path}: axis {unknown[0]!r} is of type {axes[unknown[0]].get('type')!r}; "
                            "expected 'const', 'var' or 'expr'")  # fmt: skip
        constraints = [str(c) for c in definition.get("constraints") or ()]
        self._constraints = [c for c in constraints if _of_axes(c, axes)]
        ends = {c: m for c in constraints if (m := _ENDS.fullmatch(c.strip())) and m[1] in axes}
        self._ends = {str(match[2]): str(match[1]) for match in ends.values()}
        held = {*self._constraints, *ends}
        self.notes = tuple(f"constraint not enforced: {c}" for c in constraints if c not in held)

    def sizes(self, line: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of the variable axes that a workload gives."""
        return {name: int(line["axes"][name]) for name in self._varying if name in line["axes"]}

    def make_like(self, line: Mapping[str, Any]) -> Callable[[dict[str, int]], Workload]:
        """Return a maker of workloads with this one's scalars at other sizes."""

        def make(axes: dict[str, int]) -> Workload:
            missing = [n for n in self._varying if n not in axes]
            if missing:
                raise TaskError(f"{self._path}: a workload gives no size for axis {missing[0]!r}")
            names: dict[str, int | str] = {**self._fixed, **axes}
            for name, expression in self._derived.items():
                names[name] = size(expression, names)
            broken = [c for c in self._constraints if not holds(c, names)]
            if broken:
                raise TaskError(f"{self._path}: a workload with {axes} breaks the constraint {broken[0]!r}")
            self.stored.at(axes)
            given = line.get("inputs") or {}
            return Workload(
                name=",".join(f"{k}={v}" for k, v in axes.items()) or "as-declared", split=Split.SEARCH, axes=axes,
                arguments=tuple(self._argument(n, s, names, given.get(n, {"type": "random"}))
                                for n, s in self._definition["inputs"].items()),
                outputs=tuple(TensorSpec(name=n, shape=_shape(s, names), dtype=_dtype(s))
                              for n, s in self._definition["outputs"].items()),
            )  # fmt: skip

        return make

    def _argument(
        self, name: str, spec: Mapping[str, Any], names: Mapping[str, int | str], given: Mapping[str, Any]
    ) -> TensorSpec | ScalarSpec:
        kind = "safetensors" if name in self.stored.names else given.get("type", "random")
        if spec.get("shape") is None or kind == "scalar":
            if "value" not in given:
                raise TaskError(f"{self._path}: scalar input {name!r} has no 'value' in the workload")
            return ScalarSpec(name=name, value=given["value"])
        shape, dtype = _shape(spec, names), _dtype(spec)
        values = self._values(kind, dtype, shape)
        if name == _PROBABILITIES and values.kind == "normal":
            values = Distribution(kind="probabilities")
        if values.kind == "integers" and name in self._ends:
            values = Distribution(kind="offsets", high=size(self._ends[name], names))
        return TensorSpec(name=name, shape=shape, dtype=dtype, distribution=values)

    def _values(self, kind: str, dtype: str, shape: tuple[int, ...]) -> Distribution:
        if kind in {"custom", "safetensors"} or self._definition.get("custom_inputs_entrypoint"):
            return Distribution(kind="given")
        if kind != "random":
            raise TaskError(f"{self._path}: input type {kind!r} is unknown; expected 'random', 'scalar', "
                            "'safetensors' or 'custom'")  # fmt: skip
        if dtype.startswith(("int", "uint")):
            return Distribution(kind="integers", low=0, high=max(2, min(shape, default=2)))
        return Distribution(kind="bernoulli", scale=0.5) if dtype == "bool" else Distribution()


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        definition = json.loads(text)
    except json.JSONDecodeError as error:
        raise TaskError(f"{path}: line {error.lineno} is not JSON: {error.msg}") from None
    missing = [k for k in _KEYS if not isinstance(definition, dict) or k not in definition]
    if missing:
        raise TaskError(f"{path}: no {missing[0]!r} in the definition; expected {', '.join(_KEYS)}")
    result: dict[str, Any] = definition
    return result


def _workloads(path: Path, definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    inside = definition.get("workloads")
    if inside is None:
        local_files = [
            p for p in (path.with_name("workload.jsonl"), path.with_name("workloads.jsonl")) if p.is_file()
        ]
        if not local_files:
            raise TaskError(
                f"{path}: no workloads; expected 'workloads' inside it or workload.jsonl beside it"
            )
        try:
            inside = [json.loads(line) for line in read_text(local_files[0]).splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise TaskError(f"{local_files[0]} is not one JSON object a line: {error.msg}") from None
    lines = [line.get("workload", line) for line in inside]
    if not lines or not all(isinstance(line.get("axes"), dict) for line in lines):
        raise TaskError(f"{path}: each workload needs 'axes'; found {len(lines)} workloads")
    return lines


def _of_axes(constraint: str, axes: Mapping[str, Any]) -> bool:
    """Whether a constraint compares sizes of axes and nothing else."""
    try:
        holds(constraint, dict.fromkeys(axes, 2))
    except TaskError:
        return False
    return True


def _contract(lines: Sequence[Mapping[str, Any]]) -> Contract:
    """Take the widest tolerance as the cap on error, relative to the output's scale."""
    tolerances = [line["tolerance"] for line in lines if line.get("tolerance")]
    if not tolerances:
        return Contract()
    cap = max(max(float(t.get("max_atol") or 0), float(t.get("max_rtol") or 0)) for t in tolerances)
    return Contract(error_cap=cap) if cap > 0 else Contract()


def _shape(spec: Mapping[str, Any], names: Mapping[str, int | str]) -> tuple[int, ...]:
    return tuple(size(str(s), names) for s in spec.get("shape") or ())


def _dtype(spec: Mapping[str, Any]) -> str:
    return _DTYPES.get(str(spec["dtype"]), str(spec["dtype"]))


def _distinct(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    found: dict[str, Workload] = {}
    for workload in workloads:
        found.setdefault(workload.name, workload)
    return tuple(found.values())
