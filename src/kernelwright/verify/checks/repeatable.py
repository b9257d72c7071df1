"""Many calls in a row, as timed, are all right."""

from ...records import Finding
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

_CALLS = 12


class Repeatable:
    """Call a dozen times in one request, as timing does, and compare every output."""

    name = "repeatable"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first call that is not right: races, phase counters, exhausted buffers."""
        if case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        for i, fetched in enumerate(trial.call([placed] * _CALLS)):
            found = compare_outputs(self.name, fetched, case, f"on call {i + 1} of {_CALLS}, ")
            if found.status == "fail":
                return found
        return passed(self.name)
