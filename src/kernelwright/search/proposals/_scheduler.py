"""Allocates evaluations: every proposal once, then more configurations of the most promising templates."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from ...errors import fault_of
from ...learn import Hint
from ...propose import Move, Proposal, Template
from ...records import Candidate, Configuration, Evaluation, SourceFile, Space
from ..editing._edits import Edits
from ..tuners import Observation, Tuner
from ..tuners._per_workload import TOGETHER, Focused

MakeTuner = Callable[[Space], Tuner]
"""Makes the tuner of one template."""

_AT_BOUND = "within 5 % of the bound"
_LEAST_GAIN = 0.01
"""A template has improved if its best time fell by this share."""
_STALE_COST = 0.05
"""A template without improvement for n trials ranks as if its best time were n times this share slower."""
_TUNED_PER_EDIT = 2
"""Trials of templates between two edits: parameters are tuned while editors work on the structure."""


@dataclass
class Arm:
    """One template with its tuner and its progress."""

    template: Template
    tuner: Focused
    move: Move | None = None
    """The move that made it. None for the candidates that a proposer started with."""
    bests_us: dict[str, float] = field(default_factory=dict)
    """The best time by focus: all search workloads together, and each of them."""
    stale: int = 0
    """Trials since it last improved."""
    vetted: bool = False
    """Whether one of its candidates passed full verification."""
    open: bool = True
    """Whether to try more of its configurations."""
    reason: str = ""
    """Why it was closed."""

    @property
    def best_us(self) -> float | None:
        """The best time over all search workloads together."""
        return self.bests_us.get(TOGETHER)

    def note(self, costs: Mapping[str, float | None]) -> None:
        """Record the costs that improve on the best of a focus."""
        worked = {focus: cost for focus, cost in costs.items() if cost is not None}
        gained = [f for f, c in worked.items() if c < self.bests_us.get(f, inf) * (1 - _LEAST_GAIN)]
        self.stale = 0 if gained else self.stale + 1
        self.bests_us |= {f: min(c, self.bests_us.get(f, inf)) for f, c in worked.items()}


@dataclass(frozen=True)
class Trial:
    """One candidate to evaluate, and the arm or move that receives its result."""

    candidate: Candidate
    arm: Arm | None = None
    configuration: Configuration = field(default_factory=dict)
    move: Move | None = None
    """The move that made it. None for the candidates that a proposer started with."""
    fault: str = ""
    """The error its template raised instead of returning a source; it counts as not built."""


class Scheduler:
    """Allocate evaluations over proposals.

    First come every plain candidate and every template's default, in the order proposed; while a proposer waits
    for an answer, templates are tuned. Then, if there are edits, come the new candidates of each edit, followed by two
    trials of templates; if the edits end without a result, what is proposed `instead`. Without edits, or after them,
    each trial goes to the open template with the lowest best time, which counts as slower the longer the template has
    not improved; once none is open, what is proposed `late` is tried. A template closes when its space is used up,
    after `patience` trials without a gain, after `tolerance` trials without any that worked, or within 5 % of the
    bound. Where it does not end there (`ends_at_bound`), since a search is to make so many evaluations, one that closed
    so goes on once none else is open.
    """

    def __init__(
        self,
        proposals: Iterator[Proposal | None],
        make_tuner: MakeTuner,
        edits: Edits | None = None,
        *,
        instead: Iterator[Proposal | None] | None = None,
        late: Iterator[Proposal | None] | None = None,
        hints: Sequence[Hint] = (),
        patience: int = 12,
        tolerance: int = 4,
        ends_at_bound: bool = True,
    ) -> None:
        self._hints = hints
        self._proposals, self._instead, self._late = proposals, instead, late
        self._make_tuner = make_tuner
        self._edits = edits
        self._edited: deque[Trial] = deque()
        self._to_tune = 0
        self._patience = patience
        self._tolerance = tolerance
        self._ends_at_bound = ends_at_bound
        self.arms: list[Arm] = []

    def ask(self, *, idle: bool = True) -> Trial | None:
        """Return the next trial, or None if there is none.

        Args:
            idle: Whether nothing else is left to evaluate, so that it may wait for an edit. If false, None
                means to ask again once it is true.
        """
        for proposal in self._proposals:
            if proposal is not None:
                return self._first(proposal)
            if (trial := self._tuned()) is not None or not idle:
                return trial
        if self._edits is None:
            return self._last(idle)
        if self._edited:
            return self._edited.popleft()
        while self._to_tune > 0:
            self._to_tune -= 1
            if (trial := self._tuned()) is not None:
                return trial
        edit = self._edits.next() if idle else None
        if edit is None and self._instead is not None and self._edits.in_vain:
            self._proposals, self._instead = self._instead, None
            return self.ask(idle=idle)
        if edit is None:
            return self._tuned() if idle else None
        self._edited.extend(self._first(p, edit.move) for p in edit.proposals)
        self._to_tune = _TUNED_PER_EDIT
        return self._edited.popleft()

    def _last(self, idle: bool) -> Trial | None:
        """Tune templates; once none is open and nothing under way, go on with what comes late."""
        trial = self._tuned()
        if trial is None and idle and self._late is not None:
            self._proposals, self._late = self._late, None
            return self.ask(idle=idle)
        return trial

    def stop(self) -> None:
        """Start no more edits and cancel those under way."""
        if self._edits is not None:
            self._edits.stop()

    def _first(self, proposal: Proposal, move: Move | None = None) -> Trial:
        if isinstance(proposal, Candidate):
            return Trial(proposal, move=move)
        arm = Arm(proposal, Focused(lambda: self._tuner(proposal)), move)
        self.arms.append(arm)
        return self._trial(arm, proposal.default())

    def _tuned(self) -> Trial | None:
        while (promising := self._most_promising()) is not None:
            configuration = promising.tuner.ask()
            if configuration == promising.template.default():  # was tried first, perhaps not reported yet
                configuration = promising.tuner.ask()
            if configuration is not None:
                return self._trial(promising, configuration)
            promising.open, promising.reason = False, "its space is used up"
        return None

    def tell(self, trial: Trial, evaluation: Evaluation, costs_us: Mapping[str, float | None]) -> None:
        """Report a trial's cost by focus. None if it did not build, verify or run."""
        if self._edits is not None:
            self._edits.tell(evaluation, trial.move)
        arm = trial.arm
        if arm is None:
            return
        arm.tuner.tell(trial.configuration, costs_us)
        arm.note(costs_us)
        self._close_if_done(arm, evaluation)

    def _tuner(self, template: Template) -> Tuner:
        tuner = self._make_tuner(template.space)
        tuner.warm_start(self._seen(template))
        return tuner

    def _seen(self, template: Template) -> list[Observation]:
        """Return earlier runs' observations of a template, scaled so that its best took 100 microseconds."""
        name = template.name, template.language
        return [
            Observation(hint.configuration, 100.0 * hint.cost)
            for hint in self._hints
            if (hint.template, hint.language) == name
        ]

    def _trial(self, arm: Arm, configuration: Configuration) -> Trial:
        try:
            return Trial(arm.template.render(configuration), arm, configuration, arm.move)
        except Exception as error:  # noqa: BLE001 - a template is third-party code; its fault is this candidate's
            fault = f"template {arm.template.name!r} was not rendered: {fault_of(error)}"
            return Trial(_unrendered(arm.template, configuration, fault), arm, configuration, arm.move, fault)

    def _most_promising(self) -> Arm | None:
        # An arm without a working trial ranks after those that have one.
        ready = [a for a in self.arms if a.open]
        if not ready and not self._ends_at_bound:
            ready = [a for a in self.arms if a.reason == _AT_BOUND]
        return min(ready, key=_rank, default=None)

    def _close_if_done(self, arm: Arm, evaluation: Evaluation) -> None:
        decision = evaluation.decision
        if decision.is_within(0.95):
            arm.open, arm.reason = False, _AT_BOUND
        elif arm.best_us is None and arm.stale >= self._tolerance:
            arm.open, arm.reason = False, f"none of {arm.stale} trials worked"
        elif arm.stale >= self._patience:
            arm.open, arm.reason = False, f"no gain in {arm.stale} trials"


def _rank(arm: Arm) -> tuple[bool, float]:
    if arm.best_us is None:
        return True, arm.stale
    return False, arm.best_us * (1 + _STALE_COST * arm.stale)


def _unrendered(template: Template, configuration: Configuration, fault: str) -> Candidate:
    """Return a placeholder candidate for a configuration without a source."""
    return Candidate(
        sources=(SourceFile(path="fault.txt", text=f"{fault}\nat {configuration}\n"),),
        language=template.language, entry=f"fault.txt:{template.name}", template=template.name,
        parameters=configuration,
    )  # fmt: skip
