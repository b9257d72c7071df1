"""On a GPU a call takes its inputs and gives its outputs in the order of the caller's stream."""

from ...records import Finding
from .._case import Case
from .._protocol import Depth, passed
from .._trial import Trial
from .correct import compare_outputs


class StreamOrdered:
    """Call while the caller's stream is busy and brings the inputs late; look at the outputs from that stream alone.

    Timed calls end when the whole device is idle, so that work on other streams is timed; whoever uses the kernel waits
    for no more than the stream that it was called in.

    Covers: work on a stream that waits for the caller's too late, or that the caller's does not wait for; work that a
    thread of the host starts after the call returned.
    Does not cover: work that ends by luck before its outputs are read.
    """

    name = "stream-ordered"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the caller's stream sees another answer."""
        if not trial.on_gpu or case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        other = trial.oracle.again(case, case.seed + 1)
        return compare_outputs(self.name, trial.call_late(placed, other), other, "in the caller's stream, ")
