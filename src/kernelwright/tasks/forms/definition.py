"""The definition form: the JSON that FlashInfer-Bench and SOL-ExecBench share.

Covers: const, var and expression axes, tensor and scalar inputs, `random` and `scalar` workload inputs, a
generator named by `custom_inputs_entrypoint`, tolerances.
Does not cover: inputs stored as safetensors; `constraints`, which are noted and not enforced.

Source: NVIDIA SOL-ExecBench and FlashInfer-Bench, definition, workload and solution schemas.
"""

import json
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
from .._expression import size
from .._probe import called
from .._shrink import fit_axes
from .._source import read_text, run_reference
from ..splits import Plan, derive
from .kernelbench import seeded

_DEFINITION, _REFERENCE = "definition.json", "reference.py"
_DTYPES = {"float8_e4m3": "float8_e4m3fn"}
_KEYS = ("name", "axes", "inputs", "outputs", "reference")


def load(path: Path, text: str, *, max_elements: int | None = None, contract: Contract | None = None) -> Task:
    """Make a task of a definition; its workloads are inside it, or in `workload.jsonl` beside it."""
    definition = _parse(text, path)
    lines = _workloads(path, definition)
    maker = _Maker(definition, path)
    fitted = [fit_axes(maker.make_like(line), maker.sizes(line), max_elements) for line in lines]
    searches = tuple(workload for workload, _ in fitted)
    notes = tuple(dict.fromkeys((*maker.notes, *(note for _, more in fitted for note in more))))
    reference = Reference(
        files=(SourceFile(path=_REFERENCE, text=definition["reference"]), SourceFile(path=_DEFINITION, text=text)),
        entry=f"{_REFERENCE}:run", style="function", origin=str(path),
    )  # fmt: skip
    task = Task(
        name=definition["name"], form="definition", reference=reference, workloads=_distinct(searches),
        contract=contract or _contract(lines), notes=notes,
    )  # fmt: skip
    return derive(task, Plan(make=maker.make_like(lines[0]), free=maker.free))


class Live:
    """Runs `run`, and the definition's own generator where it names one."""

    def __init__(self, task: Task) -> None:
        self._reference = task.reference
        text = next(f.text for f in task.reference.files if f.path == _DEFINITION)
        self._definition = _parse(text, Path(task.reference.origin))

    def reference(self, workload: Workload) -> Reference:  # noqa: ARG002  the same for all
        """Return the reference's source as it is."""
        return self._reference

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:  # noqa: ARG002
        """Return nothing: `run` is a function."""
        return ()

    def given(self, workload: Workload, seed: int) -> list[Any]:
        """Call the definition's generator with axes and scalars; it returns tensors by name."""
        entry = self._definition["custom_inputs_entrypoint"]
        module = run_reference(self._reference)
        scalars = {s.name: s.value for s in workload.arguments if isinstance(s, ScalarSpec)}
        with seeded(seed):
            values = called(
                getattr(module, entry), f"{self._reference.origin}: {entry}()",
                {**workload.axes, **scalars}, torch.device("cpu"),
            )  # fmt: skip
        missing = [s.name for s in workload.arguments if s.name not in values and s.name not in scalars]
        if missing:
            raise TaskError(f"{self._reference.origin}: {entry}() returned no {missing[0]!r}")
        return [values.get(s.name, scalars.get(s.name)) for s in workload.arguments]

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the definition at these sizes, scalars as the workload has them; `run` is not run."""
        scalars = {
            s.name: {"type": "scalar", "value": s.value}
            for s in workload.arguments if isinstance(s, ScalarSpec)
        }  # fmt: skip
        maker = _Maker(self._definition, Path(self._reference.origin))
        return maker.make_like({"inputs": scalars})(workload.axes | dict(axes))


class _Maker:
    """Instantiates workloads of one definition."""

    def __init__(self, definition: Mapping[str, Any], path: Path) -> None:
        self._definition, self._path = definition, path
        axes = definition["axes"]
        self.free = tuple((n,) for n, a in axes.items() if a.get("type") == "var")
        self._fixed = {n: int(a["value"]) for n, a in axes.items() if a.get("type") == "const"}
        self._derived = {n: str(a.get("expression", a.get("expr"))) for n, a in axes.items()
                         if a.get("type") in {"expr", "expression"}}  # fmt: skip
        unknown = [
            n for n in axes if n not in self._fixed and n not in self._derived and (n,) not in self.free
        ]
        if unknown:
            raise TaskError(f"{path}: axis {unknown[0]!r} is of type {axes[unknown[0]].get('type')!r}; "
                            "expected 'const', 'var' or 'expr'")  # fmt: skip
        self.notes = tuple(f"constraint not enforced: {c}" for c in definition.get("constraints") or ())

    def sizes(self, line: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of the variable axes that a workload gives."""
        return {name: int(line["axes"][name]) for (name,) in self.free if name in line["axes"]}

    def make_like(self, line: Mapping[str, Any]) -> Callable[[dict[str, int]], Workload]:
        """Return what makes workloads with the scalars of this one at other sizes."""

        def make(axes: dict[str, int]) -> Workload:
            missing = [n for (n,) in self.free if n not in axes]
            if missing:
                raise TaskError(f"{self._path}: a workload gives no size for axis {missing[0]!r}")
            names: dict[str, int | str] = {**self._fixed, **axes}
            for name, expression in self._derived.items():
                names[name] = size(expression, names)
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
        kind = given.get("type", "random")
        if kind == "safetensors":
            raise TaskError(f"{self._path}: input {name!r} is stored as safetensors, which is not supported; "
                            "give it as 'random' or 'scalar', or name a custom_inputs_entrypoint")  # fmt: skip
        if spec.get("shape") is None or kind == "scalar":
            if "value" not in given:
                raise TaskError(f"{self._path}: scalar input {name!r} has no 'value' in the workload")
            return ScalarSpec(name=name, value=given["value"])
        shape, dtype = _shape(spec, names), _dtype(spec)
        return TensorSpec(name=name, shape=shape, dtype=dtype, distribution=self._values(kind, dtype, shape))

    def _values(self, kind: str, dtype: str, shape: tuple[int, ...]) -> Distribution:
        if kind == "custom" or self._definition.get("custom_inputs_entrypoint"):
            return Distribution(kind="given")
        if kind != "random":
            raise TaskError(
                f"{self._path}: input type {kind!r} is unknown; expected 'random', 'scalar' or 'custom'"
            )
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
        beside = [
            p for p in (path.with_name("workload.jsonl"), path.with_name("workloads.jsonl")) if p.is_file()
        ]
        if not beside:
            raise TaskError(
                f"{path}: no workloads; expected 'workloads' inside it or workload.jsonl beside it"
            )
        try:
            inside = [json.loads(line) for line in read_text(beside[0]).splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise TaskError(f"{beside[0]} is not one JSON object a line: {error.msg}") from None
    lines = [line.get("workload", line) for line in inside]
    if not lines or not all(isinstance(line.get("axes"), dict) for line in lines):
        raise TaskError(f"{path}: each workload needs 'axes'; found {len(lines)} workloads")
    return lines


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
