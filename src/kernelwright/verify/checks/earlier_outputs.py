"""An output is still right after later calls."""

from ...records import Finding
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs

OVERWRITTEN = "the next call wrote its answer over an earlier one"


class EarlierOutputs:
    """Call twice on different content in one request, then look at the first output, and look again."""

    name = "earlier-outputs"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the first call's output was overwritten, or the second call repeated the first."""
        if case.state_after or case.mutated:
            return passed(self.name)
        other = trial.oracle.again(case, case.seed + 1)
        placed = trial.place(case, other)
        first, second = trial.call(placed)
        again = placed[0].worker.fetch(0, deadline_s=trial.limit_s())
        for fetched, expected, when in (
            (first, case, "after a later call, "),
            (second, other, "on the second of two calls, "),
            (again, case, "fetched again, "),
        ):
            found = compare_outputs(self.name, fetched, expected, when)
            if found.status == "fail":
                later = fetched is not second and compare_outputs(self.name, fetched, other, "")
                over = later and later.status != "fail"
                return (
                    found.model_copy(update={"message": f"{OVERWRITTEN}: {found.message}"}) if over else found
                )
        return passed(self.name)
