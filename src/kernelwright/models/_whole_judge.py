"""Planned → the judge of the model as a task: opened at the first question, and open until the run ends.

Its native forms are compiled once, whatever is asked of it, and all that it is asked counts as candidates of one run.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

from ..api.judge import Ask, judging
from ..errors import InputError, KernelwrightError
from ..records import Candidate
from ..search import Judgement
from ..store import Store
from ._assemble import Accepted, assemble
from ._assemble_pieces import assemble_pieces
from ._native_forms import forms_in
from ._plan import Planned
from ._whole_task import WholeTask
from .pieces import Unprintable


class WholeJudge:
    """Judges a model with kernels in place of some of its regions; a context manager."""

    def __init__(self, plan: Planned, baselines: Sequence[str], options: dict[str, Any], end: float) -> None:
        """Prepare; nothing is started before the first question.

        Args:
            plan: The model and its plan.
            baselines: Native forms of the model to beat.
            options: `device`, `store` and `on_event`, as `optimize_model` has them.
            end: `time.monotonic` value by which all is decided.
        """
        self._plan, self._baselines, self._options, self.end = plan, tuple(baselines), options, end
        self._open = ExitStack()

    def __enter__(self) -> "WholeJudge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    @property
    def store(self) -> Path | str | None:
        """Folder of the run store."""
        place: Path | str | None = self._options["store"]
        return place

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self.end - time.monotonic()

    @cached_property
    def whole(self) -> WholeTask:
        """The model as a task.

        Raises:
            KernelwrightError: it cannot be one.
            Unprintable: likewise.
        """
        return self._plan.as_task()

    def ask(self, kernels: Sequence[Accepted], *, screen: bool) -> Judgement:
        """Judge the model with these kernels, in full or only as far as a search does to rank.

        Raises:
            InputError: the kernels cannot be in one program.
            Unprintable: what lies between them cannot be written into a file.
        """
        made = self.assembled(kernels)
        return self._ask(made, screen)

    def native(self) -> dict[str, float]:
        """Time the model's native forms, by a screening of the model without any kernel; nothing where that fails."""
        try:
            judgement = self.ask((), screen=True)
        except (KernelwrightError, Unprintable):
            return {}
        with Store(self.store) as store:
            return forms_in(store, judgement.run)

    def assembled(self, kernels: Sequence[Accepted]) -> Candidate:
        """Return the model with these kernels as a candidate for its task."""
        capture = self._plan.captured.whole
        if capture is None:
            return assemble_pieces(self.whole.task, kernels)
        return assemble(capture, self._plan.timed[capture.name], kernels, self.whole.state, self.whole.names)

    @cached_property
    def _ask(self) -> Ask:
        options = {name: self._options[name] for name in ("device", "store", "on_event")}
        if self.left_s <= 0:
            raise InputError("time was up")
        opened = judging(
            self.whole.task, baselines=self._baselines, minutes=max(self.left_s, 1.0) / 60, **options
        )
        return self._open.enter_context(opened)
