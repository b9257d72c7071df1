"""Random outputs are drawn from the reference's distribution, anew in every call."""

import torch

from ...records import Finding
from .._case import Case, same_bits
from .._protocol import Depth, failed, passed
from .._trial import Trial
from .._two_sample import differences

_CHUNK_BYTES = 32 << 20
_MOST_CHUNK = 40


class Distribution:
    """Call many times on the same inputs and compare what the calls say with the reference's calls.

    Covers: what `_distribution` covers; outputs overwritten by later calls.
    Does not cover: reproducing torch's own random stream, which is not asked for.
    """

    name = "distribution"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail on the first output whose calls differ from the reference's beyond chance."""
        if not trial.problem.task.contract.stochastic:
            return passed(self.name)
        count = case.calls
        step = max(1, min(_MOST_CHUNK, _CHUNK_BYTES // max(1, case.outputs_bytes)))
        drawn: list[tuple[torch.Tensor, ...]] = []
        while len(drawn) < count:
            placed = trial.place(case)[0]
            fetched = trial.call([placed] * min(step, count - len(drawn)))
            again = placed.worker.fetch(0, deadline_s=trial.limit_s())
            if not all(map(same_bits, fetched[0].outputs, again.outputs)):
                return failed(self.name, "an output was changed by a later call")
            drawn += [f.outputs for f in fetched]
        sampled_outputs = trial.oracle.sampled_outputs(case)
        if any([o.shape for o in outputs] != [r.output.shape for r in case.outputs] for outputs in drawn):
            return failed(self.name, "in one of many calls, an output does not have the expected shape")
        cases = len(trial.problem.task.workloads) * len(sampled_outputs)
        for i, sampled in enumerate(sampled_outputs):
            found = differences(sampled, [outputs[i] for outputs in drawn], cases)
            if found:
                return failed(self.name, f"output {i} is not drawn as the reference draws it: {found[0]}")
        return passed(self.name)
