"""Accepted kernels → the verdict on the model with them, as a whole."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..api.judge import judging
from ..errors import InputError, KernelwrightError
from ..records import DecisionStatus, Task
from ..search import Judgement, OnEvent
from ._assemble import Accepted, assemble
from ._assemble_pieces import assemble_pieces
from ._harm import without_harm
from ._over_eager import over_eager
from ._plan import Planned
from ._whole_task import WholeTask
from ._wrong_layer import told, wrong_layer
from .pieces import Unprintable

_SCREEN_SHARE = 0.5
"""Part of the time for finding the kernels that work together; the rest is for the verdict."""
_NONE = "no kernel that helps alone works inside the model"
_SLOWER = "the model is not faster with it"
_LATE = "time was up before it was known which kernels help inside the model; allow more --minutes"


class Judged:
    """Judges the patched model as a whole."""

    def __init__(self, plan: Planned, accepted: Sequence[Accepted], say: Callable[..., None]) -> None:
        self._plan, self._accepted, self._say = plan, list(accepted), say
        self.kept: tuple[Accepted, ...] = ()
        """The kernels in the result."""
        self.judged: tuple[Accepted, ...] = ()
        """The kernels in what was judged in full."""
        self.out: dict[str, str] = {}
        """Region → why its accepted kernel is not in the result."""
        self.reason = ""
        """Why nothing better was found."""
        self.weights: tuple[str, ...] = ()
        """The model's parameters and buffers in the order of the task's state."""
        self._screened, self._screened_until, self._until = False, 0.0, 0.0
        self._seen: list[tuple[float, str]] = []
        """Speedup of the model with each set of kernels that was timed, and what is said of it."""
        self.task: Task | None = None
        """The model as a task; none where it cannot be judged."""

    def judge(
        self, baselines: Sequence[str], device: str | None, store: Path | str | None, on_event: OnEvent | None,
        left_s: float,
    ) -> Judgement | None:  # fmt: skip
        """Find the set of kernels that work together, and put it through full acceptance, within `left_s` seconds."""
        try:
            whole = self._plan.as_task()
        except (KernelwrightError, Unprintable) as error:
            self.reason = f"the model cannot be judged as a whole: {error}"
            return None
        self.weights, self.task = whole.weights, whole.task
        self._screened_until = time.monotonic() + _SCREEN_SHARE * left_s
        self._until = time.monotonic() + left_s
        with judging(
            whole.task,
            device=device,
            baselines=tuple(baselines),
            store=store,
            on_event=on_event,
            minutes=max(left_s, 1.0) / 60,
        ) as ask:
            self.kept, out = without_harm(self._accepted, lambda parts: self._score(parts, whole, ask, store))
            for one in out:
                why = self.out.get(one.region.key, _SLOWER)
                self.out[one.region.key] = told(
                    why, partial(self._wrong_layer, (one,), store, self._screened_until)
                )
            if not self.kept:
                over = time.monotonic() >= self._screened_until
                self.reason = _LATE if over else self._none_helps()
                return None
            self.judged = self.kept
            judgement = ask(self._assembled(self.kept, whole), False)
        if judgement.decision is not DecisionStatus.IMPROVED:
            self.reason = told(judgement.reason, partial(self._wrong_layer, self.judged, store, self._until))
            self.out |= {a.region.key: f"the whole is {judgement.decision}" for a in self.kept}
            self.kept = ()
        return judgement

    def _none_helps(self) -> str:
        """Say that no kernel helps, and how fast the model was with the best of them."""
        _, found = max(self._seen, default=(0.0, ""))
        return f"no kernel makes the model faster: with the best it is {found}" if found else _NONE

    def _score(
        self, parts: tuple[Accepted, ...], whole: WholeTask, ask: Any, store: Path | str | None
    ) -> float:
        """Screen the model with some of the kernels: its speedup, 0 where it is wrong or there is no time to know."""
        if self._screened and time.monotonic() >= self._screened_until:
            return 0.0
        self._screened = True
        labels = ", ".join(p.region.label for p in parts)
        try:
            judgement = ask(self._assembled(parts, whole), True)
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
        found = _told(judgement, over_eager(store, judgement.run, judgement.candidate))
        self._say("whole", message=f"with {labels}: {found}")
        self._seen.append((float(judgement.speedup.median), found))
        if len(parts) == 1:
            self.out[parts[0].region.key] = f"{_SLOWER}: with it alone it is {found}"
        return float(judgement.speedup.median)

    def _wrong_layer(self, parts: Sequence[Accepted], store: Path | str | None, until: float) -> str:
        """Name the layer where the model is wrong with these kernels, if there is time for it."""
        known = self._plan.captured.whole is not None and time.monotonic() < until
        return wrong_layer(self._plan, None, parts, store) if known else ""

    def _assembled(self, parts: Sequence[Accepted], whole: WholeTask) -> Any:
        capture = self._plan.captured.whole
        if capture is None:
            return assemble_pieces(whole.task, parts)
        return assemble(capture, self._plan.timed[capture.name], parts, whole.state, whole.names)


def _told(judgement: Judgement, eager: float | None) -> str:
    """Say how fast a model with kernels is against the best native form, and against eager torch.

    A kernel of a region is held against eager torch and torch.compile, and the whole against max-autotune with freezing
    too: both ratios tell whether a gain was lost inside, or never was one over the best native form.
    """
    eager = None if judgement.baseline == "eager" else eager
    ways = [(judgement.speedup.median if judgement.speedup else 1.0, judgement.baseline), (eager, "eager")]
    return " and ".join(f"{times:.2f} times as fast as {name}" for times, name in ways if times)
