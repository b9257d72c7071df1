"""Accepted kernels → the verdict on the model with them, as a whole."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from ..errors import InputError, KernelwrightError
from ..records import DecisionStatus, Task
from ..search import Judgement
from ._assemble import Accepted
from ._harm import without_harm
from ._over_eager import over_eager
from ._plan import Planned
from ._whole_judge import WholeJudge
from ._wrong_layer import told, wrong_layer
from .pieces import Unprintable

_SCREEN_SHARE = 0.5
"""Part of the time for finding the kernels that work together; the rest is for the verdict."""
_NONE = "no kernel that helps alone works inside the model"
_SLOWER = "the model is not faster with it"
_LATE = "time was up before it was known which kernels help inside the model; allow more --minutes"


class Judged:
    """Judges the patched model as a whole, with one set of kernels after another."""

    def __init__(self, plan: Planned, say: Callable[..., None]) -> None:
        self._plan, self._say = plan, say
        self.kept: tuple[Accepted, ...] = ()
        """The kernels in the result."""
        self.judged: tuple[Accepted, ...] = ()
        """The kernels in what was judged in full last."""
        self.out: dict[str, str] = {}
        """Region → why its accepted kernel is not in the result."""
        self.taken_out: tuple[Accepted, ...] = ()
        """Kernels that the model is faster, or right, without, of those judged last."""
        self.reason = ""
        """Why nothing better was found."""
        self.weights: tuple[str, ...] = ()
        """The model's parameters and buffers in the order of the task's state."""
        self._screened, self._screened_until = False, 0.0
        self._seen: list[tuple[float, str]] = []
        """Speedup of the model with each set of kernels that was timed, and what is said of it."""
        self.best: Judgement | None = None
        """Of the sets that were timed, the one with the largest speedup, those judged in full before the others."""
        self._best = (False, 0.0)
        self.task: Task | None = None
        """The model as a task; none where it cannot be judged."""

    def judge(self, judge: WholeJudge, accepted: Sequence[Accepted]) -> Judgement | None:
        """Find the set of kernels that work together, and put it through full acceptance."""
        self.kept, self.taken_out, self.reason = (), (), ""
        try:
            whole = judge.whole
        except (KernelwrightError, Unprintable) as error:
            self.reason = f"the model cannot be judged as a whole: {error}"
            return None
        self.weights, self.task = whole.weights, whole.task
        self._screened, self._screened_until = False, time.monotonic() + _SCREEN_SHARE * judge.left_s
        kept, out = without_harm(accepted, lambda parts: self._score(parts, judge))
        over = time.monotonic() >= self._screened_until
        for one in out:
            why = self.out.get(one.region.key, _SLOWER)
            self.out[one.region.key] = told(
                why, partial(self._wrong_layer, (one,), judge, self._screened_until)
            )
        self.taken_out = () if over else out
        if not kept:
            self.reason = _LATE if over else self._none_helps()
            return None
        self.judged = kept
        judgement = judge.ask(kept, screen=False)
        self._note(judgement, full=True)
        if judgement.decision is DecisionStatus.IMPROVED:
            self.kept = kept
            self.out = {key: why for key, why in self.out.items() if key not in {a.region.key for a in kept}}
            return judgement
        self.reason = told(judgement.reason, partial(self._wrong_layer, kept, judge, judge.end))
        self.out |= {a.region.key: f"the whole is {judgement.decision}" for a in kept}
        return judgement

    def _none_helps(self) -> str:
        """Say that no kernel helps, and how fast the model was with the best of them."""
        _, found = max(self._seen, default=(0.0, ""))
        return f"no kernel makes the model faster: with the best it is {found}" if found else _NONE

    def _note(self, judgement: Judgement, *, full: bool) -> None:
        """Remember what was timed, if nothing before tells more."""
        told = (full, float(judgement.speedup.median) if judgement.speedup else 0.0)
        if told > self._best:
            self._best, self.best = told, judgement

    def _score(self, parts: tuple[Accepted, ...], judge: WholeJudge) -> float:
        """Screen the model with some of the kernels: its speedup, 0 where it is wrong or there is no time to know."""
        if self._screened and time.monotonic() >= self._screened_until:
            return 0.0
        self._screened = True
        labels = ", ".join(p.region.label for p in parts)
        try:
            judgement = judge.ask(parts, screen=True)
        except (InputError, Unprintable) as error:
            self._say("whole", message=f"with {labels}: {error}")
            if len(parts) == 1:
                self.out[parts[0].region.key] = str(error)
            return 0.0
        if judgement.speedup is None:
            self._say("whole", message=f"with {labels}: {judgement.decision}: {judgement.reason}")
            if len(parts) == 1:
                self.out[parts[0].region.key] = (
                    f"inside the model it is {judgement.decision}: {judgement.reason}"
                )
            return 0.0
        found = _told(judgement, over_eager(judge.store, judgement.run, judgement.candidate))
        self._say("whole", message=f"with {labels}: {found}")
        self._seen.append((float(judgement.speedup.median), found))
        self._note(judgement, full=False)
        if len(parts) == 1:
            self.out[parts[0].region.key] = f"{_SLOWER}: with it alone it is {found}"
        return float(judgement.speedup.median)

    def _wrong_layer(self, parts: Sequence[Accepted], judge: WholeJudge, until: float) -> str:
        """Name the layer where the model is wrong with these kernels, if there is time for it."""
        known = self._plan.captured.whole is not None and time.monotonic() < until
        return wrong_layer(self._plan, None, parts, judge.store) if known else ""


def _told(judgement: Judgement, eager: float | None) -> str:
    """Say how fast a model with kernels is against the best native form, and against eager torch.

    Both ratios tell whether a gain was lost inside, or never was one over the best native form.
    """
    eager = None if judgement.baseline == "eager" else eager
    ways = [(judgement.speedup.median if judgement.speedup else 1.0, judgement.baseline), (eager, "eager")]
    return " and ".join(f"{times:.2f} times as fast as {name}" for times, name in ways if times)
