"""Write the package."""

import json
import keyword
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Literal

from ..errors import InputError
from ..languages import prepared
from ..languages.cpp import BASE_FLAGS as CPP_FLAGS
from ..languages.cpp import header
from ..records import (
    Candidate,
    Scalar,
    ScalarSpec,
    SourceFile,
    Split,
    Task,
    TensorSpec,
    Workload,
    content_key,
)
from ._claim import JUDGED, Claim, Judged
from ._guard import Specialisation, opened

Form = Literal["package", "kernels"]
_HERE = Path(__file__).parent
_MOST_NAMED = 6
"""Arguments that an example names."""
_GENERATED: dict[Form, dict[str, tuple[str, ...]]] = {
    "package": {
        "$home/__init__.py": ("package.txt",),
        "$home/native.py": ("native.txt",),
        "test_$name.py": ("test.txt",),
        "cases.json": ("cases.txt",),
        "pyproject.toml": ("pyproject.txt",),
        "README.md": ("readme.txt",),
    },
    "kernels": {
        "$home/__init__.py": ("package.txt", "hub.txt"),
        "$home/native.py": ("native.txt",),
        "$home/layers.py": ("layers.txt",),
        "$home/metadata.json": ("metadata.txt",),
        "README.md": ("kernels.txt",),
    },
}
"""Generated files of a package, each with its templates."""


@dataclass(frozen=True)
class Kernel:
    """An exported package."""

    name: str
    """Its import name."""
    folder: Path
    """The folder to put on the import path; the package is `folder / name`."""
    specialisations: tuple[str, ...]
    """Names of the specialisations behind the guard."""


def package(
    task: Task,
    specialisations: Sequence[Specialisation],
    claim: Claim,
    folder: Path,
    *,
    device: str = "cpu",
    init: Sequence[Scalar] = (),
    form: Form = "package",
) -> Kernel:
    """Write the accepted specialisations of one task as an importable package.

    Args:
        task: The task; its reference becomes the native op.
        specialisations: Accepted candidates with the workloads they serve, several of one candidate perhaps; of those
            that admit a call the first serves.
        claim: The claim sheet.
        folder: Where to; made if missing, and replaced if it holds an earlier export.
        device: Device type in the guard: `cpu` or `cuda`.
        init: Arguments that make the reference module, where the reference is one.
        form: `package`, for the import path; `kernels`, for that library of Hugging Face, with a layer to put in place
            of others.

    Raises:
        InputError: there is nothing to export, or the folder holds something else.
    """
    if not specialisations:
        raise InputError(
            f"task {task.name!r} has no accepted kernel to export; run `kernelwright optimize` first"
        )
    if task.contract.backward:
        raise InputError(
            f"task {task.name!r} is a backward task; its kernels are judged but not exported yet"
        )
    for specialisation in specialisations:
        _check_exportable(specialisation)
    name = _identifier(task.name)
    with _in_place_of(folder.resolve()) as made:
        home = name if form == "package" else f"build/torch-{device}"
        _fill(made / home, task, specialisations, device)
        texts = _texts(name, task, specialisations, device, init)
        for path, templates in _GENERATED[form].items():
            text = "".join((_HERE / "templates" / name).read_text() for name in templates)
            place = made / Template(path).substitute(texts, home=home)
            place.write_text(Template(text).substitute(texts))
        judged = {v.evaluation.candidate.key: v.evaluation.candidate for v in specialisations}
        (made / JUDGED).write_text(Judged(task=task, candidates=tuple(judged.values())).to_json())
        (made / "claim.json").write_text(claim.to_json())
        (made / "CLAIM.md").write_text(claim.to_markdown())
    return Kernel(name, folder, tuple(dict.fromkeys(v.name for v in specialisations)))


def _fill(home: Path, task: Task, specialisations: Sequence[Specialisation], device: str) -> None:
    """Write what is the same in every package: kernels, reference, guard, runtime."""
    (home / "specialisations").mkdir(parents=True)
    for specialisation in specialisations:
        _write(home / "specialisations" / specialisation.name, _whole(specialisation.evaluation.candidate))
    _write(home / "reference", task.reference.files)
    weights = [s.name for s in task.split(Split.SEARCH)[0].state]
    tolerance = _tolerance(task)
    rows = [{**_table_row(v, device), "weights": weights, "tolerance": tolerance} for v in specialisations]
    (home / "specialisations.json").write_text(json.dumps(rows, indent=1))
    shutil.copytree(_HERE / "runtime", home / "_runtime", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(str(prepared.__file__), home / "_runtime")


def _tolerance(task: Task) -> dict[str, float] | None:
    """Return what sampled calls are held to; nothing for random ops, whose calls differ."""
    contract = task.contract
    return None if contract.stochastic else {"factor": contract.error_factor, "floor": contract.error_floor}


def _check_exportable(specialisation: Specialisation) -> None:
    candidate = specialisation.evaluation.candidate
    if candidate.style == "module":
        raise InputError(
            f"candidate {candidate.key} is a module; expected a function or a compiled symbol that takes the "
            "state as arguments"
        )
    if candidate.style == "destination" and candidate.language not in {"cpp", "torch", "triton"}:
        raise InputError(
            f"candidate {candidate.key} is in {candidate.language}; expected C++, Triton or PyTorch, which an "
            "exported package can load by itself"
        )


def _table_row(specialisation: Specialisation, device: str) -> dict[str, object]:
    candidate = specialisation.evaluation.candidate
    return {
        "name": specialisation.name,
        "language": candidate.language,
        "style": candidate.style,
        "entry": candidate.entry,
        "flags": [*CPP_FLAGS, *candidate.flags] if candidate.language == "cpp" else [],
        "own_flags": list(candidate.flags),
        "parameters": candidate.parameters,
        "guard": opened(specialisation, device),
    }


def _texts(
    name: str, task: Task, specialisations: Sequence[Specialisation], device: str, init: Sequence[Scalar]
) -> dict[str, str]:
    """Return what templates name."""
    example = task.split(Split.SEARCH)[0]
    specs = (*example.arguments, *example.state)
    names = [_identifier(s.name) for s in specs]
    outputs = ", ".join("Tensor" for _ in example.outputs)
    mutated = {_identifier(m) for m in task.contract.mutates}
    schema = ", ".join(
        f"{_schema_type(s, f'(a{i}!)' if n in mutated else '')} {n}"
        for i, (s, n) in enumerate(zip(specs, names, strict=True))
    )
    path, _, symbol = task.reference.entry.partition(":")
    return {
        "name": name,
        "task": task.name,
        "arguments": ", ".join(names),
        "schema": f"({schema}) -> ({outputs})",
        "mutates": repr(tuple(sorted(mutated))),
        "path": path,
        "symbol": symbol,
        "is_module": repr(task.reference.style == "module"),
        "init": repr(tuple(init)),
        "state": repr(tuple(s.name for s in example.state)),
        "count": str(len(example.arguments)),
        "cases": json.dumps([_case(w) for w in _testable(task)], indent=1),
        "factor": repr(task.contract.error_factor),
        "floor": repr(task.contract.error_floor),
        "mode": repr(task.contract.mode == "train"),
        "device": device,
        "parameters": ", ".join(names[: len(example.arguments)]),
        "usage": ", ".join(names if len(names) <= _MOST_NAMED else (*names[:_MOST_NAMED], "...")),
        "layer": "".join(word.capitalize() for word in name.split("_")),
        "metadata": json.dumps(_metadata(name, specialisations, device), indent=1),
    }


def _metadata(name: str, specialisations: Sequence[Specialisation], device: str) -> dict[str, object]:
    """Return what the `kernels` library reads of a build: its names, and packages that it needs."""
    keys = sorted({v.evaluation.candidate.key for v in specialisations})
    compiled = any(v.evaluation.candidate.language == "cpp" for v in specialisations)
    return {
        "name": f"kernel-{name}".replace("_", "-") if len(name) == 1 else name.replace("_", "-"),
        "id": f"{name}_{device}_{content_key(*keys)}",
        "version": 1,
        "license": "other",
        "python-depends": ["tvm-ffi"] if compiled else [],
        "backend": {"type": device},
    }


def _testable(task: Task) -> list[Workload]:
    workloads = [w for w in task.workloads if w.regime == "declared"]
    return [w for w in workloads if all(_drawable(s) for s in (*w.arguments, *w.state))]


def _drawable(spec: TensorSpec | ScalarSpec) -> bool:
    return isinstance(spec, ScalarSpec) or (
        spec.layout == "contiguous"
        and spec.distribution.kind in {"normal", "uniform", "integers", "constant"}
    )


def _case(workload: Workload) -> dict[str, object]:
    specs = (*workload.arguments, *workload.state)
    return {"name": workload.name, "arguments": [s.model_dump(mode="json") for s in specs]}


def _schema_type(spec: TensorSpec | ScalarSpec, alias: str) -> str:
    if isinstance(spec, TensorSpec):
        return f"Tensor{alias}"
    kinds = {bool: "bool", int: "int", float: "float", str: "str"}
    value = spec.value
    if isinstance(value, tuple):
        return f"{kinds[type(value[0])] if value else 'int'}[]"
    return kinds.get(type(value), "Tensor?")


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_").lower() or "kernel"
    return f"k_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def _whole(candidate: Candidate) -> Sequence[SourceFile]:
    """Return a candidate's sources with our header, which its language lends to those that do not carry it."""
    own = header()
    lent = candidate.language == "cpp" and own.path not in {file.path for file in candidate.sources}
    return (*candidate.sources, own) if lent else candidate.sources


def _write(folder: Path, files: Sequence[SourceFile]) -> None:
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)


@contextmanager
def _in_place_of(folder: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of the one named, or of nothing, once it is whole.

    Raises:
        InputError: there is a file, or a folder that holds something other than an earlier export.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name an empty or a new folder")
    if folder.exists() and any(folder.iterdir()) and not (folder / "claim.json").exists():
        raise InputError(f"{folder} is not empty and holds no earlier export; name an empty or a new folder")
    made, before = (folder.with_name(f".{folder.name}-{os.getpid()}-{what}") for what in ("new", "old"))
    made.mkdir(parents=True)
    try:
        yield made
        if folder.exists():
            folder.rename(before)
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)
