"""No output shares storage with an argument, a state tensor or another output."""

from ...records import Finding
from .._protocol import Observation, failed, passed


class Aliasing:
    """Refuse outputs that are views of something else, unless the reference's are."""

    name = "aliasing"

    def examine(self, seen: Observation) -> Finding:
        """Fail on the first shared storage."""
        if seen.contract.may_alias:
            return passed(self.name)
        for i, fact in enumerate(seen.fetched.facts):
            if fact.aliases:
                return failed(self.name, f"output {i} shares storage with argument {fact.aliases[0]}")
            if fact.shares:
                return failed(self.name, f"output {i} shares storage with output {fact.shares[0]}")
        return passed(self.name)
