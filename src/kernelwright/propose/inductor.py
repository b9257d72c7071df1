"""TorchInductor's code for a task → self-contained candidates that can be edited.

A run that starts from these is never worse than `torch.compile`, and later proposers have a correct
kernel to change. C++ becomes a candidate of language `cpp` in style `function`: the kernels' text and a
Python file that allocates and calls them. Triton stays the Python module that Inductor writes.

Covers: the modes `default` and `max-autotune`, every search workload of the task in one candidate.
Does not cover: sizes other than those harvested (it declares them unsupported); ops with random numbers;
`freezing`, which folds weights into constants: no contract guarantees that weights never change, and the check
`weights-followed` rejects a kernel that ignores updated weights (as a baseline it may be requested).
"""

import logging
from collections.abc import Iterator

from ..errors import InputError
from ..records import Candidate, Split
from ._inductor import DEADLINE_S, HarvestError, harvest, rewrite
from ._protocol import Request

_LOG = logging.getLogger(__name__)


class InductorProposer:
    """One candidate per mode; equal sources are yielded once."""

    name = "inductor"
    repeats = "compile"
    modes = ("default", "max-autotune")

    def propose(self, request: Request) -> Iterator[Candidate]:
        """Yield the candidate of each mode; a mode that fails is logged and skipped."""
        seen = set()
        task = request.problem.task
        if task.contract.backward:
            raise InputError(f"{task.name} asks for gradients; what is harvested computes the forward only")
        deadline_s = max(1.0, min(DEADLINE_S, request.left_s()))
        for harvested in harvest(task, task.split(Split.SEARCH), self.modes, deadline_s=deadline_s):
            try:
                if harvested.failure:
                    raise HarvestError(harvested.failure)
                candidate = rewrite(harvested.codes, task.name, harvested.mode)
            except HarvestError as error:
                _LOG.warning(
                    "torch.compile (%s) gave no candidate for %s: %s", harvested.mode, task.name, error
                )
                continue
            if candidate.language in request.languages and candidate.key not in seen:
                seen.add(candidate.key)
                yield candidate
