"""The KernelBench form: a file with `Model`, `get_inputs` and, as a rule, `get_init_inputs`.

The file is used unchanged, except for the integer constants that differ between workloads.
"""

import functools
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import TaskError
from ...records import Contract, Reference, ScalarSpec, SourceFile, Split, Task, TensorSpec, Workload
from ..inputs._draw import elements_of
from ..inputs._seed import seed_torch
from ..workloads._free_sizes import Groups, left_free
from ..workloads._shrink import Shrinker
from ..workloads.splits import Plan, derive
from ._constants import constants, substitute, used_by_init
from ._local_imports import local_imports
from ._shape_probe import Probe, check_form, init_of, inputs_of, probe, shaped_inputs
from ._size_names import Labels, labels, relabelled, unlabelled
from ._source import run_reference, run_source

_MOST_CHECKED = 1 << 24


def load(
    path: Path, text: str, *, max_elements: int | None, contract: Contract | None, fixed: Sequence[str] = ()
) -> Task:
    """Make a task of the file; `fixed` names constants that keep their value in every workload."""
    file = _File(path, text)
    check_form(run_source(text, str(path), local_imports(path, text)), str(path))
    shrunk, uncounted = file.shrunk(max_elements) if max_elements is not None else ({}, 0)
    found = file.probe(shrunk)
    groups = file.free(shrunk)
    known = file.labels(groups, shrunk)
    free = left_free(groups, unlabelled(fixed, known), str(path))
    axes = {n: file.values[n] for group in free for n in group} | shrunk
    plan = Plan(make=lambda a: _workload(a, file.probe(a)), free=free)
    task = Task(
        name=path.stem,
        form="kernelbench",
        reference=file.reference({}),
        workloads=(_workload(axes, found),),
        contract=_as_built(contract or Contract(), training=found.training),
        notes=(
            *(f"shrunk {n}: {file.values[n]:,} → {v:,}" for n, v in shrunk.items()),
            *(
                [f"not counted: {uncounted:,} elements of state that no constant changes"]
                if uncounted
                else []
            ),
        ),
    )
    return relabelled(derive(task, plan), known)


class Live:
    """Runs the file with a workload's constants in its text."""

    def __init__(self, task: Task) -> None:
        self._reference = task.reference
        self._plain: dict[str, tuple[Any, ...]] = {}
        """What `get_init_inputs` returned, by reference, where nobody can change it."""

    def reference(self, workload: Workload) -> Reference:
        """Return the file with the workload's constants."""
        return with_constants(self._reference, workload.axes)

    def init_arguments(self, workload: Workload) -> tuple[Any, ...]:
        """Return what `get_init_inputs` returns."""
        reference = self.reference(workload)
        if reference.key in self._plain:
            return self._plain[reference.key]
        with seeded(0):
            made = init_of(run_reference(reference), reference.origin)
        if all(isinstance(value, bool | int | float | str | None) for value in made):
            self._plain[reference.key] = made
        return made

    def given(self, workload: Workload, seed: int) -> list[Any]:
        """Return what `get_inputs` returns under the seed."""
        reference = self.reference(workload)
        with seeded(seed):
            return inputs_of(run_reference(reference), reference.origin)

    def at(self, workload: Workload, axes: Mapping[str, int]) -> Workload:
        """Return the file's shapes with these constants."""
        found = probe(with_constants(self._reference, axes), meta_alone=self._on_meta)
        return _workload(workload.axes | dict(axes), found)

    @functools.cached_property
    def _on_meta(self) -> bool:
        """Whether the file runs on the meta device as declared: then sizes that fail there are invalid."""
        try:
            return probe(self._reference).device == "meta"
        except TaskError:
            return False


def with_constants(reference: Reference, values: Mapping[str, int]) -> Reference:
    """Return the reference with the constants in its first file set."""
    first, *rest = reference.files
    text = substitute(first.text, values, reference.origin)
    return reference.model_copy(update={"files": (first.model_copy(update={"text": text}), *rest)})


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, numpy and random inside; restore their states afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        seed_torch(seed)
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _as_built(contract: Contract, *, training: bool) -> Contract:
    """Return the contract in the mode of the module that the file builds, unless it names one."""
    if "mode" in contract.model_fields_set:
        return contract
    return contract.model_copy(update={"mode": "train" if training else "eval"})


def _workload(axes: Mapping[str, int], found: Probe) -> Workload:
    name = ",".join(f"{k}={v}" for k, v in axes.items()) or "as-declared"
    return Workload(
        name=name, split=Split.SEARCH, axes=dict(axes), arguments=found.arguments, state=found.state,
        outputs=found.outputs,
    )  # fmt: skip


class _File:
    """One KernelBench file and its constants."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text, self._local_files = path, text, local_imports(path, text)
        self._probes: dict[tuple[tuple[str, int], ...], Probe] = {}
        self.values = {c.name: c.value for c in constants(text, str(path)).values()}

    def reference(self, values: Mapping[str, int]) -> Reference:
        plain = Reference(
            files=(SourceFile(path=self._path.name, text=self._text), *self._local_files),
            entry=f"{self._path.name}:Model", style="module", origin=str(self._path),
        )  # fmt: skip
        return with_constants(plain, values)

    def probe(self, values: Mapping[str, int], *, outputs: bool = True) -> Probe:
        key = tuple(sorted((self.values | dict(values)).items()))
        found = self._probes.get(key)
        if found is None or (outputs and not found.ran):
            declared = next(iter(self._probes.values()), None)
            known = declared is not None and declared.ran and declared.device == "meta"
            found = self._probes[key] = probe(self.reference(values), meta_alone=known, outputs=outputs)
        return found

    def shrunk(self, limit: int) -> tuple[dict[str, int], int]:
        """Return the constants to change so that everything fits the limit, coupled ones together.

        State that none of them changes does not count if it alone is too large; the second value is its size.
        """
        failed: TaskError | None = None
        for joint in (False, True):
            try:
                values, uncounted = self._fitted(limit, joint=joint)
                self._run_for_real(values)
            except TaskError as error:
                failed = failed or error
                continue
            return {k: v for k, v in values.items() if v != self.values[k]}, uncounted
        raise TaskError(f"{self._path}: cannot be shrunk to {limit:,} elements: {failed}")

    def _fitted(self, limit: int, *, joint: bool) -> tuple[dict[str, int], int]:
        tied = used_by_init(self._text, str(self._path))
        shrinker = Shrinker(self._elements, tied, joint)
        try:
            return shrinker.shrink(self.values, limit), 0
        except TaskError:
            fixed = self._fixed(shrinker.least(self.values))
        try:
            return Shrinker(lambda v: self._elements(v) - fixed, tied, joint).shrink(
                self.values, limit
            ), fixed
        except TaskError as error:
            raise TaskError(
                f"not counting {fixed:,} elements of state that no constant changes, {error}"
            ) from None

    def _elements(self, values: Mapping[str, int]) -> int:
        """Count elements at these values; other layers than the file declares are another model."""
        found, declared = self.probe(values, outputs=False), self.probe({}, outputs=False)
        if [s.name for s in found.state] != [s.name for s in declared.state]:
            raise TaskError("another number of layers")
        return found.elements

    def _fixed(self, least: Mapping[str, int]) -> int:
        """Count the elements of the state that has the same shapes when all that can shrink is small."""
        now, then = (self.probe(values, outputs=False).state for values in ({}, least))
        return elements_of([a for a, b in zip(now, then, strict=True) if a.shape == b.shape])

    def free(self, shrunk: Mapping[str, int]) -> Groups:
        """Group the constants that the inputs' shapes depend on; those that must change together are one group."""
        values = self.values | dict(shrunk)
        shapes = self._input_shapes(values)
        names = [
            n for n, v in values.items()
            if v >= 1 and self._input_shapes(values | {n: 2 * v}) not in (None, shapes)
        ]  # fmt: skip
        groups: list[tuple[str, ...]] = []
        for name in names:
            if any(name in group for group in groups):
                continue
            equal = tuple(n for n in values if values[n] == values[name])
            if self._fits(values | {name: 2 * values[name]}):
                groups.append((name,))
            elif len(equal) > 1 and self._fits(values | {n: 2 * values[n] for n in equal}):
                groups.append(equal)
        return self._with_bounds(tuple(groups), values)

    def labels(self, groups: Groups, shrunk: Mapping[str, int]) -> Labels:
        """Name the literals among the constants that may change after the axes that they size."""
        return labels(groups, self.values | dict(shrunk), self._arguments)

    def _with_bounds(self, groups: Groups, values: dict[str, int]) -> Groups:
        """Add to each group the bounds of integer arguments that equal its sizes: they may index these sizes."""
        grouped = {name for group in groups for name in group}
        declared = self.probe(values).arguments
        bounds = [
            n for n, v in values.items()
            if n not in grouped and v >= 1 and self._arguments(values | {n: 2 * v}) not in (None, declared)
        ]  # fmt: skip
        return tuple(
            (*group, *(n for n in bounds if values[n] in {values[m] for m in group})) for group in groups
        )

    def _arguments(self, values: Mapping[str, int]) -> tuple[TensorSpec | ScalarSpec, ...] | None:
        """Return the description of the arguments at these values; None if the file does not run."""
        try:
            return self.probe(values).arguments
        except TaskError:
            return None

    def _fits(self, values: Mapping[str, int]) -> bool:
        try:
            self.probe(values)
        except TaskError:
            return False
        return True

    def _input_shapes(self, values: Mapping[str, int]) -> list[tuple[int, ...]] | None:
        reference = self.reference(values)
        try:
            module = run_reference(reference)
            made = shaped_inputs(module, reference.origin)
        except TaskError:
            return None
        return [tuple(t.shape) if isinstance(t, torch.Tensor) else () for t in made]

    def _run_for_real(self, values: Mapping[str, int]) -> None:
        """Run once if that is cheap: an index out of range does not show on the meta device."""
        if self.probe(values).elements > _MOST_CHECKED:
            return
        reference = self.reference(values)
        module = run_reference(reference)
        with seeded(0), torch.no_grad():
            inputs = inputs_of(module, reference.origin)
            try:
                module.Model(*init_of(module, reference.origin))(*inputs)
            except Exception as error:
                raise TaskError(f"Model raised {type(error).__name__}: {error}") from error
