"""Training steps → candidates that differ in what the forward part keeps for the backward part.

What is kept costs memory and its traffic; what is not is computed again. Torch's partitioners of AOTAutograd say what
keeping a given share takes, TorchInductor compiles both parts, and the judge times them. A loss head, a linear layer
and the cross-entropy of its results, is left to the kernel of `ops.loss` first, which stores no logits.

Covers: what `optimize_training` makes of a model, on the CPU, at every search workload.
Does not cover: other tasks, for which it proposes nothing; sizes other than those harvested.
"""

import logging
from collections.abc import Iterator

from ..records import Candidate, Split
from ._inductor import DEADLINE_S, NO_STEP, HarvestError, Parting, Partition, harvest, rewrite_step
from ._protocol import Request

_LOG = logging.getLogger(__name__)
KEEPS: tuple[Partition, ...] = ("default", "min-cut", "everything", "inputs", "half")
"""What is tried, in order."""


class PartitionProposer:
    """Two candidates for each partition: with the loss head's kernel, where there is such a head, and without."""

    name = "partition"

    def propose(self, request: Request) -> Iterator[Candidate]:
        """Yield the candidates; one that fails is logged and skipped."""
        task = request.problem.task
        for keeps in KEEPS:
            partings = [Parting(keeps=keeps, head=head) for head in (True, False)]
            deadline_s = max(1.0, min(DEADLINE_S, request.left_s()))
            found = harvest(task, task.split(Split.SEARCH), partings=partings, deadline_s=deadline_s)
            for parting, harvested in zip(partings, found, strict=True):
                try:
                    if harvested.failure:
                        raise HarvestError(harvested.failure)
                    candidate = rewrite_step(harvested.steps, task.name, parting)
                except HarvestError as error:
                    _LOG.info("no candidate of %s that keeps %s: %s", task.name, keeps, error)
                    continue
                if candidate.language in request.languages:
                    yield candidate
            if NO_STEP in found[-1].failure:
                return
