"""New content in the same storage gives a new answer."""

from ...records import Finding
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs


class FreshContent:
    """Call, refill the same storage under the same binding by raw copy, call again."""

    name = "fresh-content"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the second answer is not right for the second content."""
        if case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        other = trial.oracle.again(case, case.seed + 1)
        found = compare_outputs(
            self.name, trial.call([trial.refill(placed, other)])[0], other, "refilled in place, "
        )
        if found.status == "fail":
            return found
        back = trial.call([trial.refill(placed, case)])[0]
        return compare_outputs(self.name, back, case, "with the first content again, ")
