"""What a candidate is ordered by that is right and that nothing here can time: a modelled time, never a claim."""

from dataclasses import dataclass

from ...devices import Device
from ...languages import executes
from ...records import Build, Candidate, CheckStatus, ModelledTime, Verdict
from ...sandbox import Pool
from ...verify import Oracle, modelled_times
from ._join import TIMED, joined
from ._stages import Stages

_MODEL_S = 60.0


@dataclass(frozen=True)
class Model:
    """Models what this device does not time, but a machine without a GPU executes."""

    device: Device
    oracle: Oracle
    pool: Pool

    def __call__(
        self, candidate: Candidate, build: Build, verdict: Verdict, stages: Stages
    ) -> tuple[tuple[ModelledTime, ...], Verdict]:
        """Model the time on each search workload of a candidate about which only its time is unknown; and say so.

        Returns:
            The times, none where it is timed or there is no model, and the verdict with what was found on the way.
        """
        doubts = {f.check for f in verdict.findings if f.status is not CheckStatus.PASS}
        if doubts != {TIMED} or stages.over or self.device.kind != "cpu" or not executes(candidate.language):
            return (), verdict
        with stages("model"):
            limit_s = stages.within(_MODEL_S)
            times, found = modelled_times(self.oracle, candidate, build, pool=self.pool, deadline_s=limit_s)
        return times, joined(verdict, [found])
