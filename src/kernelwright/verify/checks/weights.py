"""State changed between calls is followed: in place and by loading, the whole of it and single elements."""

from dataclasses import replace

import torch

from ...errors import TaskError
from ...records import Finding
from ...tasks.inputs.perturbations import alike
from .._case import Case, same_bits
from .._error import error_against
from .._protocol import Depth, passed
from .._state_changes import STEPS, Change, Kind, apply, plan
from .._trial import Trial
from .correct import compare_outputs

_LARGE = 1 << 20
_CHANGES, _CHANGES_OF_EACH, _MOST_CHANGES, _CHANGES_OF_LARGE = 20, 3, 40, 10
"""Changes at least, for each tensor, at most, and where a tensor has more than `_LARGE` elements."""
_WORDS: dict[Kind, str] = {
    "large": "one element of the state was changed", "small": "one element of the state was changed a little",
    "block": "a few elements of the state were changed", "swap": "two elements of the state were exchanged",
    "opposite": "two elements of the state were changed by opposite amounts",
}  # fmt: skip


class WeightsFollowed:
    """Change the state after a call and ask again; packed or cached weights must not go stale."""

    name = "weights-followed"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the new state."""
        if not case.state:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        for step, in_place in ((3, True), (4, False)):
            other = trial.oracle.with_state(case, case.seed + step)
            if not other.usable:
                continue
            trial.refill(placed, case)
            placed.worker.set_state(other.state, deadline_s=trial.limit_s(), in_place=in_place)
            when = f"after the state was changed {'in place' if in_place else 'by loading'}, "
            found = compare_outputs(self.name, trial.call([placed])[0], other, when)
            if found.status == "fail":
                return found
        return passed(self.name)


class WeightElementsFollowed:
    """Change single elements and small blocks of the state at secret places, one change after the other.

    Each is made in place, in the tensors that it is of and in no other, and counts where the answer to the state before
    it would be wrong. A kernel that packs its weights again only where a fingerprint of them changes keeps a stale
    answer for those that the fingerprint misses. Tables that every seed gives alike are left as they are.
    """

    name = "weights-followed"
    depth: Depth = "full"

    def probe(self, trial: Trial, case: Case) -> Finding:
        """Fail where the answer is not right for the changed state."""
        movable = _movable(trial, case)
        if not movable or case.state_after or case.mutated:
            return passed(self.name)
        placed = trial.place(case)[0]
        trial.call([placed])
        before, seen = case, 0
        for change in plan(movable, _count(case, len(movable)), case.seed):
            other = _shown(trial, before, case, change)
            if other is None:
                continue
            given = {name: other.state[name] for name in change.names}
            placed.worker.set_state(given, deadline_s=trial.limit_s(), in_place=True)
            fetched, seen = trial.call([trial.refill(placed, case)])[0], seen + 1
            found = compare_outputs(self.name, fetched, other, f"after {_WORDS[change.kind]} in place, ")
            if found.status == "fail":
                return found
            before = other
        return passed(self.name, changes=seen)


def _count(case: Case, tensors: int) -> int:
    large = any(t.numel() > _LARGE for t in (*case.tensors, *case.state.values()))
    return _CHANGES_OF_LARGE if large else min(_MOST_CHANGES, max(_CHANGES, _CHANGES_OF_EACH * tensors))


def _movable(trial: Trial, case: Case) -> dict[str, torch.Tensor]:
    """Return what of the state may be other values: what seeds make different, and what is one value throughout."""
    if not case.state:
        return {}
    again = trial.problem.state(case.workload, case.seed + 1)
    return {
        name: value
        for name, value in case.state.items()
        if value.numel()
        and (not same_bits(value, again[name]) or (value.is_floating_point() and alike(value)))
    }


def _shown(trial: Trial, before: Case, case: Case, change: Change) -> Case | None:
    """Make the change, larger and larger, until the answer before it is wrong after it; none where it never is.

    One that makes an answer overflow is passed over: which elements are infinite and which NaN depends on the order of
    the steps then, and a stale answer is seen as well by finite numbers.
    """
    for step in range(len(STEPS[change.kind])):
        moved = apply(before.state[change.names[0]], change, step)
        if moved is None:
            continue
        state = before.state | {name: moved.clone() for name in change.names}
        try:
            other = trial.oracle.follow(case, case.seed, case.inputs, state)
        except (IndexError, RuntimeError, ValueError, TaskError):
            continue
        both = list(zip(before.outputs, other.outputs, strict=True))
        if not other.usable or any(b.finite and not o.finite for b, o in both):
            continue
        if not all(error_against(b.output, o, case.tensors, brief=True).ok for b, o in both):
            return replace(other, closer=None)  # the same inputs: what is allowed hardly changes
    return None
