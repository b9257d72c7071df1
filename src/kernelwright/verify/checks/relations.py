"""The relations that hold for the reference hold for the candidate."""

import math

from ...records import Finding, TensorSpec
from .._case import Case
from .._protocol import Depth, failed, passed
from .._relations import Relation, changed, holds, order_of, pairs, prepared
from .._trial import Trial
from .correct import compare_outputs

_MOST_ELEMENTS = 1 << 20


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
        make, argument, change = trial.oracle.make, relation.argument, relation.change
        inputs = prepared(change, case.inputs, argument)
        order = order_of(change, inputs[argument], case.seed)
        other = changed(change, inputs, case.workload.arguments, argument, order)
        one = make(case.workload, case.seed, inputs, case.state)
        two = make(case.workload, case.seed, other, case.state)
        if not (one.usable and two.usable):
            return passed(self.name)
        first, second = trial.call(trial.place(one, two))
        for fetched, expected in ((first, one), (second, two)):
            found = compare_outputs(self.name, fetched, expected, f"under {relation.name}, ")
            if found.status == "fail":
                return found
        for i, form, wanted, got in pairs(relation, first.outputs, second.outputs, order):
            before, after = one.outputs[i].allowed, two.outputs[i].allowed
            if before is None or after is None:
                continue
            if not holds(form, one.outputs[i].truth, two.outputs[i].truth, order):
                continue  # it was found by chance: max |x| shifts where the largest is positive
            if bool(((got - wanted).abs() > after + form.limit(before, order)).any()):
                return failed(self.name, f"under {relation.name}, output {i} is not {form.name}")
        return passed(self.name)
