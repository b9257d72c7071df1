"""One element changed in the same storage shows in the answer."""

import torch

from ...records import Finding, TensorSpec
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_STRUCTURED = frozenset({"sorted", "permutation", "probabilities", "triangular", "given"})
"""Kinds of values of which one alone cannot change without breaking what was declared."""
_QUARTERS = 4
"""Times that an element is changed, each in another quarter: at one place alone, who reads a part of an argument
and takes the rest for granted would be right wherever that place falls into the part."""


class OneElement:
    """Change one element at a secret place of each quarter of each float argument, one quarter after the other.

    Fingerprints over samples miss it, and so does who looks at the first row and believes that all are like it.
    """

    name = "one-element"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the changed content."""
        if case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        for number in range(_QUARTERS):
            inputs = one_element_changed(case, (case.seed + number) % _QUARTERS)
            if number == 0:
                other = trial.oracle.make(case.workload, case.seed, inputs, case.state, near=case)
            else:  # at a fifth of the cost
                other = trial.oracle.follow(case, case.seed, inputs, case.state)
            if not other.usable:
                continue
            fetched = trial.call([trial.refill(placed, other)])[0]
            found = compare_outputs(self.name, fetched, other, "with one element changed, ")
            if found.status == "fail":
                return found
        return passed(self.name)


def one_element_changed(case: Case, quarter: int) -> tuple[object, ...]:
    """Return the inputs with one element in a quarter of each float argument changed; declared structure is kept.

    That a generator always gives the same number is no structure: a constant is changed like anything else.
    """
    specs = case.workload.arguments
    return tuple(
        _poked(value, spec.distribution.kind, quarter, (case.seed + i) * _QUARTERS + quarter)
        if isinstance(spec, TensorSpec) and spec.distribution.kind not in _STRUCTURED
        else value
        for i, (value, spec) in enumerate(zip(case.inputs, specs, strict=True))
    )


def _poked(value: object, kind: str, quarter: int, seed: int) -> object:
    """Return a copy with one element doubled, or made one where it was zero; of zeros and ones, the other."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not (count := value.numel()):
        return value
    first, end = (count * q // _QUARTERS for q in (quarter, quarter + 1))
    random = torch.Generator().manual_seed(seed)
    place = int(torch.randint(first, max(first + 1, end), (), generator=random))
    copy = torch.empty_like(value).copy_(value)
    index = torch.unravel_index(torch.tensor(place), copy.shape)
    more = 1 - copy[index] if kind == "bernoulli" else copy[index] * 2
    copy[index] = torch.where(copy[index] == 0, torch.ones_like(copy[index]), more)
    return copy
