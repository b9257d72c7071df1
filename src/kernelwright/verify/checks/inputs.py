"""The arguments are as they were, bit for bit, or changed as the reference changes them."""

from ...records import Finding, TensorSpec
from .._case import same_bits
from .._error import error_against
from .._protocol import Observation, failed, passed


class InputsUnchanged:
    """Compare the judge's own view of the arguments with what they should hold after the call."""

    name = "inputs-unchanged"

    def examine(self, seen: Observation) -> Finding:
        """Fail on the first argument that holds something else."""
        case = seen.case
        names = [s.name for s in case.workload.arguments if isinstance(s, TensorSpec)]
        for name, before, after in zip(names, case.tensors, seen.arguments_after, strict=True):
            if name in case.mutated:
                found = error_against(after, case.mutated[name])
                if not found.ok:
                    return failed(self.name, f"argument {name!r} is not changed as the reference changes it")
            elif not same_bits(before, after):
                return failed(self.name, f"argument {name!r} was changed, which the reference does not do")
        return passed(self.name)
