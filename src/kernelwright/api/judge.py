"""Judges candidates from outside the search: from a person, a script or a coding agent.

Task, Candidate ─▶ verify ─▶ measure ─▶ Judgement
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..devices import Device, detect
from ..errors import InputError
from ..flow import Options, bounded
from ..learn import learn_from
from ..records import Budget, Candidate, RunStatus, Task
from ..sandbox import Zygotes
from ..search import (
    Judgement,
    OnEvent,
    Search,
    check_choices,
    found_by,
    judge_one,
    open_judge,
    usable_languages,
)  # fmt: skip
from ..store import Store
from ..tasks import Problem, Target, load_candidate, load_task

__all__ = ["Ask", "Judgement", "given", "judge", "judging", "judging_options"]

OF_RUN = "run:"
"""What begins the name of a run where a candidate, or a task, is asked for."""

Ask = Callable[[str | Path | Candidate, bool], Judgement]
"""`ask(candidate, screen)`: judge one candidate in full, or only as far as a search does to rank it."""


def given(candidate: str | Path | Candidate, task: Task, store: Store, language: str = "") -> Candidate:
    """Return the candidate that is named: a file, a folder, an exported package, or `run:RUN`, or `run:RUN:KEY`.

    Of a run it is the kernel that was accepted, else the best that was found; KEY, or its beginning, names another.

    Raises:
        TaskError: nothing there can be called as a candidate.
        NotFoundError: no such run, or none of its candidates is meant.
    """
    if isinstance(candidate, Candidate):
        return candidate
    if not str(candidate).startswith(OF_RUN):
        return load_candidate(candidate, task, language)
    run, _, key = str(candidate).removeprefix(OF_RUN).partition(":")
    return found_by(store, store.run(run), key)


def judge(
    target: Target,
    candidate: str | Path | Candidate,
    *,
    screen: bool = False,
    device: str | None = None,
    baselines: Sequence[str] = (),
    max_elements: int | None = None,
    run: str = "",
    store: Path | str | None = None,
    on_event: OnEvent | None = None,
    zygotes: Zygotes | None = None,
) -> Judgement:
    """Verify one candidate and measure it against the native op.

    Args:
        target: The task.
        candidate: A source file, `file:symbol`, a solution's JSON file, a folder, an exported package, `run:RUN` for
            what a run found, or a `Candidate`.
        screen: Only verify and time it on the search workloads, which is never enough to accept it.
        device: `cpu`, `cuda` or `cuda:N`; by default the first GPU, else the CPU.
        baselines: Native forms to measure against, as for `optimize`.
        max_elements: Shrink sizes until inputs, parameters and outputs together have no more elements.
        run: An earlier run of judgements to continue, so that the number of candidates tried is known.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.
        zygotes: What workers are forked from, from `warmed`.

    Raises:
        TaskError: the target is not a task, or the candidate not a candidate.
    """
    task = load_task(target, max_elements=max_elements)
    with Store(store) as kept:
        one = given(candidate, task, kept)
    usable_languages((one.language,), detect(device))  # reports at once if there is none
    with judging(
        task, device=device, baselines=baselines, max_elements=max_elements, run=run, store=store, on_event=on_event,
        zygotes=zygotes,
    ) as ask:  # fmt: skip
        return ask(one, screen)


def judging_options(
    task: Task, device: Device, baselines: Sequence[str] = (), max_elements: int | None = None
) -> Options:
    """Return the options of a run that judges what it is given and searches nothing."""
    return {
        "device": device.torch_device, "tuner": "", "judged": True, "max_elements": max_elements,
        "baselines": check_choices(task, baselines=baselines),
    }  # fmt: skip


@contextmanager
def judging(
    target: Target,
    *,
    device: str | None = None,
    baselines: Sequence[str] = (),
    max_elements: int | None = None,
    run: str = "",
    store: Path | str | None = None,
    on_event: OnEvent | None = None,
    zygotes: Zygotes | None = None,
    minutes: float | None = None,
) -> Iterator[Ask]:
    """Open the judge of a task for a sequence of candidates.

    Profile and bounds are computed for the first right candidate; a refusal needs neither.
    Together they form one run, so that the decision can correct for the number of candidates tried. `run`
    continues an earlier one, which keeps its original baselines. What is not decided when the `minutes` are up is
    undecided.

    Raises:
        InputError: `run` belongs to another task, or is a search.
    """
    task, used = load_task(target, max_elements=max_elements), detect(device)
    options = judging_options(task, used, baselines, max_elements)
    with Store(store) as kept:
        if run:
            record = kept.run(run)
            if record.task != task.key or "judged" not in record.options:
                raise InputError(
                    f"run {record.id} is no series of judgements of {task.name}; leave the run out to begin one"
                )
        else:
            record = kept.create_run(
                task, device=used.fingerprint, budget=Budget(minutes=minutes), seed=0, options=options
            )
        setting = Search.of(kept, record, used, on_event)
        problem = Problem(task)
        with (
            setting.supervised(),
            open_judge(setting, problem, lambda: bounded(setting, problem), zygotes) as judge_of,
        ):

            def ask(candidate: str | Path | Candidate, screen: bool) -> Judgement:
                one = given(candidate, task, kept)
                judgement = judge_one(setting, one, judge_of, screen=screen)
                kept.finish_run(record.id, RunStatus.RUNNING, judgement.model_dump(mode="json"))
                return judgement

            yield ask
            kept.finish_run(record.id, RunStatus.FINISHED)
            learn_from(kept, record.id)
