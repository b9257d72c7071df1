"""State changed between calls is followed: in place and by loading."""

from ...records import Finding
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs


class WeightsFollowed:
    """Change the state after a call and ask again; packed or cached weights must not go stale."""

    name = "weights-followed"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the new state."""
        if not case.state:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        for step, in_place in ((3, True), (4, False)):
            state = trial.problem.state(case.workload, case.seed + step)
            other = trial.oracle.follow(case, case.seed, case.inputs, state)
            if not other.usable:
                continue
            trial.refill(placed, case)
            placed.worker.set_state(state, deadline_s=trial.limit_s(), in_place=in_place)
            when = f"after the state was changed {'in place' if in_place else 'by loading'}, "
            found = compare_outputs(self.name, trial.call([placed])[0], other, when)
            if found.status == "fail":
                return found
        return passed(self.name)
