"""The relations that hold for the reference hold for the candidate."""

import functools
import math
from collections.abc import Sequence

import torch

from ...records import Finding, TensorSpec
from .._case import Case
from .._protocol import Depth, failed, passed
from .._relations import Form, Relation, changed, holds, order_of, pairs, prepared
from .._trial import Trial
from .correct import compare_outputs

_MOST_ELEMENTS = 1 << 20
_PERTURBATIONS = 2
"""Over so many the sensitivity is averaged at first; who fails by that is held to `Case.closer`."""


class Relations:
    """Call on related inputs, hold each answer to the oracle and the answers to each other."""

    name = "relations"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first relation of the reference that does not hold within both answers' limits."""
        specs = (*case.workload.arguments, *case.workload.outputs)
        elements = sum(math.prod(s.shape) for s in specs if isinstance(s, TensorSpec))
        if case.state_after or case.mutated or elements > _MOST_ELEMENTS:
            return passed(self.name)
        for relation in trial.oracle.relations(case.workload):
            found = self._ask(trial, case, relation)
            if found.status == "fail":
                return found
        return passed(self.name)

    def _ask(self, trial: Trial, case: Case, relation: Relation) -> Finding:
        argument, change = relation.argument, relation.change
        inputs = prepared(change, case.inputs, argument)
        order = order_of(change, inputs[argument], case.seed)
        other = changed(change, inputs, case.workload.arguments, argument, order)
        one, two = (_expected(trial, case, given) for given in (inputs, other))
        if not (one.usable and two.usable):
            return passed(self.name)
        first, second = trial.call(trial.place(one, two))
        for fetched, expected in ((first, one), (second, two)):
            found = compare_outputs(self.name, fetched, expected, f"under {relation.name}, ")
            if found.status == "fail":
                return found
        for i, form, wanted, got in pairs(relation, first.outputs, second.outputs, order):
            if not holds(form, one.outputs[i].truth, two.outputs[i].truth, order):
                continue  # it was found by chance: max |x| shifts where the largest is positive
            off = (got - wanted).abs()
            beyond = functools.partial(_beyond, off=off, i=i, form=form, order=order)
            if beyond(one, two) and beyond(_closer(one), _closer(two)):
                return failed(self.name, f"under {relation.name}, output {i} is not {form.name}")
        return passed(self.name)


def _expected(trial: Trial, case: Case, inputs: Sequence[object]) -> Case:
    """Work out what is right on other inputs, cheaply where that is enough to hold the native op to it."""
    found = trial.oracle.make(case.workload, case.seed, inputs, case.state, times=_PERTURBATIONS)
    return found if found.usable else _closer(found)


def _beyond(one: Case, two: Case, off: torch.Tensor, i: int, form: Form, order: torch.Tensor) -> bool:
    """Tell whether answers are further from their relation than what is allowed of both together."""
    before, after = one.outputs[i].allowed, two.outputs[i].allowed
    return before is not None and after is not None and bool((off > after + form.limit(before, order)).any())


def _closer(case: Case) -> Case:
    return case if case.closer is None else case.closer()
