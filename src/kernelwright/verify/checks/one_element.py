"""One element changed in the same storage shows in the answer."""

import torch

from ...records import Finding, TensorSpec
from ...tasks.inputs.perturbations import changed
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_LARGE = 1 << 20
_PARTS, _PARTS_OF_LARGE = 16, 8
"""Times that an element is changed, each in another part: at one place alone, who reads a part of an argument and
takes the rest for granted would be right wherever that place falls into the part. Who reads half is right on one in
65,536 verifications, of more than `_LARGE` elements on one in 256; who reads more gains less."""


class OneElement:
    """Change one element at a secret place of each part of each argument, one part after the other.

    Fingerprints over samples miss it, and so does who looks at some rows and believes that all are like them.
    """

    name = "one-element"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the changed content."""
        if case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        large = any(t.numel() > _LARGE for t in (*case.tensors, *(r.native for r in case.outputs)))
        parts = _PARTS_OF_LARGE if large else _PARTS
        near = case if all(t.is_floating_point() for t in case.tensors) else None
        for number in range(parts):
            inputs = one_element_changed(case, (case.seed + number) % parts, parts)
            if number == 0:
                other = trial.oracle.make(case.workload, case.seed, inputs, case.state, near=near)
            else:  # at a fifth of the cost
                other = trial.oracle.follow(case, case.seed, inputs, case.state)
            if not other.usable:
                continue
            fetched = trial.call([trial.refill(placed, other)])[0]
            found = compare_outputs(self.name, fetched, other, "with one element changed, ")
            if found.status == "fail":
                return found
        return passed(self.name)


def one_element_changed(case: Case, part: int, parts: int) -> tuple[object, ...]:
    """Return the inputs with one element in one of the parts of each argument changed."""
    specs = zip(case.inputs, case.workload.arguments, strict=True)
    return tuple(
        _poked(value, spec, part, parts, (case.seed + i) * parts + part)
        for i, (value, spec) in enumerate(specs)
    )


def _poked(value: object, spec: object, part: int, parts: int, seed: int) -> object:
    """Change one element; of constant integers none, as the reference may refuse others (`constants-followed` asks)."""
    if not isinstance(value, torch.Tensor) or not isinstance(spec, TensorSpec):
        return value
    if spec.distribution.kind == "constant" and spec.dtype.startswith(("int", "uint")):
        return value
    first, end = (value.numel() * p // parts for p in (part, part + 1))
    place = int(torch.randint(first, max(first + 1, end), (), generator=torch.Generator().manual_seed(seed)))
    other = changed(value, spec, slice(place, place + 1))
    return value if other is None else other
