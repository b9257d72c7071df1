"""The outputs are plain tensors of the expected number, shape, dtype and device."""

from ...records import Finding
from .._protocol import Observation, failed, passed


class Returns:
    """Compare what came back with the declared outputs, before any value is looked at."""

    name = "returns"

    def examine(self, seen: Observation) -> Finding:
        """Fail on the first output that is not what was declared."""
        wanted, got = seen.case.workload.outputs, seen.fetched.facts
        if len(got) != len(wanted) or len(seen.fetched.outputs) != len(wanted):
            return failed(self.name, f"{len(got)} outputs, expected {len(wanted)}")
        for i, (fact, spec, output, tolerance) in enumerate(
            zip(got, wanted, seen.fetched.outputs, seen.case.outputs, strict=True)
        ):
            native = tolerance.output
            if not fact.plain:
                return failed(self.name, f"output {i} is a {fact.kind}, expected a plain torch.Tensor")
            if fact.dtype != spec.dtype or output.dtype != native.dtype:
                return failed(self.name, f"output {i} has dtype {fact.dtype}, expected {spec.dtype}")
            if fact.shape != tuple(native.shape) or output.shape != native.shape:
                return failed(
                    self.name, f"output {i} has {len(fact.shape)} axes or sizes other than expected"
                )
            if fact.device.partition(":")[0] != seen.device.partition(":")[0]:
                return failed(self.name, f"output {i} is on {fact.device}, expected {seen.device}")
        return passed(self.name)
