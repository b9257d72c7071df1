"""One element changed in the same storage shows in the answer."""

import torch

from ...records import Finding, TensorSpec
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_STRUCTURED = frozenset({"sorted", "permutation", "probabilities", "triangular", "given"})
"""Kinds of values of which one alone cannot change without breaking what was declared."""


class OneElement:
    """Change one element at a secret place of each float argument; fingerprints over samples miss it."""

    name = "one-element"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the changed content."""
        if case.state_after or case.mutated:
            return passed(self.name)
        inputs = one_element_changed(case)
        other = trial.oracle.make(case.workload, case.seed, inputs, case.state, near=case)
        if not other.usable:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        fetched = trial.call([trial.refill(placed, other)])[0]
        return compare_outputs(self.name, fetched, other, "with one element changed, ")


def one_element_changed(case: Case) -> tuple[object, ...]:
    """Return the inputs with one element of each float argument changed; declared structure is kept.

    That a generator always gives the same number is no structure: a constant is changed like anything else.
    """
    specs = case.workload.arguments
    return tuple(
        _poked(value, spec.distribution.kind, case.seed + i)
        if isinstance(spec, TensorSpec) and spec.distribution.kind not in _STRUCTURED
        else value
        for i, (value, spec) in enumerate(zip(case.inputs, specs, strict=True))
    )


def _poked(value: object, kind: str, seed: int) -> object:
    """Return a copy with one element doubled, or made one where it was zero; of zeros and ones, the other."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return value
    place = int(torch.randint(value.numel(), (), generator=torch.Generator().manual_seed(seed)))
    copy = torch.empty_like(value).copy_(value)
    index = torch.unravel_index(torch.tensor(place), copy.shape)
    more = 1 - copy[index] if kind == "bernoulli" else copy[index] * 2
    copy[index] = torch.where(copy[index] == 0, torch.ones_like(copy[index]), more)
    return copy
