"""Parameters and buffers are as they were, or changed as the reference changes them."""

from ...records import Finding
from .._case import same_bits
from .._error import error_against
from .._protocol import Observation, failed, passed

NOT_UPDATED = "is not updated as the reference updates it"


class StateUnchanged:
    """Compare the state after the call with the reference's, running statistics included."""

    name = "state-unchanged"

    def examine(self, seen: Observation) -> Finding:
        """Fail on the first tensor that holds something else."""
        case = seen.case
        if seen.state_after is None or not case.state:
            return passed(self.name)
        for name, before in case.state.items():
            after = seen.state_after.get(name)
            if name not in seen.state_after and name not in case.state_after:
                continue  # it has none such: what it answers to other weights shows whether it should
            if after is None or after.shape != before.shape or after.dtype != before.dtype:
                return failed(self.name, f"state {name!r} is gone or has another shape or dtype")
            if name in case.state_after:
                if not seen.contract.stochastic and not error_against(after, case.state_after[name]).ok:
                    return failed(self.name, f"state {name!r} {NOT_UPDATED}")
            elif not same_bits(before, after):
                return failed(self.name, f"state {name!r} was changed, which the reference does not do")
        return passed(self.name)
