"""The bytes before and after each argument are as they were."""

from ...records import Finding
from .._protocol import Observation, failed, passed


class Guards:
    """Notice writes beyond the ends of the arguments."""

    name = "guards"

    def examine(self, seen: Observation) -> Finding:
        """Fail where a guard band changed."""
        if not seen.guards_intact:
            return failed(self.name, "bytes outside the arguments were written")
        return passed(self.name)
