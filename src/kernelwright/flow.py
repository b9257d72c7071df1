"""Read this first: the stages, in order.

    Target ─▶ profile ─▶ bound ─▶ propose ─▶ verify ─▶ measure ─▶ search ─▶ learn ─▶ deploy ─▶ Kernel

`search` requests candidates from `propose`, has its judge verify and measure each, and decides what to try next.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from .bound import bound, rates_of
from .cluster import Cluster
from .devices import peaks_of
from .errors import BusyError
from .learn import hints_of, learn_from
from .profile import profile
from .records import Bound, Budget, RunStatus, Scalar, Split
from .search import (
    DEFAULT_TUNER,
    PROPOSERS,
    Event,
    OnEvent,
    Result,
    Search,
    check_choices,
    check_resumable,
    conclude,
    device_of,
    measured_on,
    open_judge,
    request_of,
    search,
    so_far,
    usable_languages,
)  # fmt: skip
from .store import Store
from .tasks import Problem, Target, load_task
from .tasks.capture import recorded

__all__ = ["Event", "Result", "optimize", "resume"]

DEFAULT_BUDGET = Budget(evaluations=40, minutes=3, search_minutes=1)
Options = dict[str, Scalar | tuple[Scalar, ...]]


def optimize(
    target: Target, *, budget: Budget = DEFAULT_BUDGET, languages: Sequence[str] = (),
    proposers: Sequence[str] = PROPOSERS, device: str | None = None, baselines: Sequence[str] = (), seed: int = 0,
    tuner: str = DEFAULT_TUNER, strategy: str = "", editors: Sequence[str] = (), more: Options | None = None,
    learn: bool = True, max_elements: int | None = None, store: Path | str | None = None,
    on_event: OnEvent | None = None, begun: float | None = None, cluster: Cluster | None = None,
) -> Result:  # fmt: skip
    """Search for a faster kernel, verify it, and package it; finding nothing better is also a result.

    Args:
        target: What to make faster.
        budget: When to stop; 40 evaluations, a minute of searching or 3 minutes in all by default.
        languages: Languages of the kernels; by default all whose tools are installed.
        proposers: Names of the proposers of kernels.
        device: `cpu`, `cuda` or `cuda:N`; by default the first GPU, else the CPU.
        baselines: Native forms to beat; the fastest counts. By default `eager`, `compile` and the existing kernel if
            there is one.
        seed: Seed of the search; the judge's own seeds are secret.
        tuner: Explores the parameters of templates.
        strategy: Decides which edit to request next, if there are `editors`.
        editors: Names of the editors that change candidates: `llm`, `agent`.
        more: Options of proposers, editors and strategies: `models`, `edits`, `strategy.patience` ...
        learn: Whether to first try what did well in earlier runs of the store.
        max_elements: Shrink sizes until inputs, parameters and outputs together have no more elements.
        store: Folder of the run store; by default the user's.
        on_event: Called with each event as it happens.
        begun: `time.monotonic` value from which the budget's minutes count; by default now; with a cluster, once an
            evaluator is there and has measured its device.
        cluster: Builds, verifies and times the candidates, on the device of its first evaluator.

    Returns:
        The decision, the speedup, and the folder of the packaged kernel if there is one.

    Raises:
        TaskError: the target is not a task.
        NotFoundError: no language, proposer, tuner, strategy, editor or device of that name.
        KeyboardInterrupt: interrupted; everything finished is stored, and `resume` continues.
    """
    begun = time.monotonic() if begun is None else begun
    task = load_task(target, max_elements=max_elements, minutes=budget.minutes)
    used = device_of(device, cluster)
    beaten = check_choices(task, baselines, proposers, tuner, strategy, editors, more=more, usd=budget.usd)
    options: Options = {
        "device": used.torch_device, "languages": usable_languages(languages, used, cluster), "tuner": tuner,
        "proposers": tuple(proposers), "baselines": beaten, "max_elements": max_elements, "learn": learn,
        "strategy": strategy, "editors": tuple(editors), **(more or {}),
    }  # fmt: skip
    begun = time.monotonic() if cluster else begun
    with Store(store) as kept:
        run = kept.create_run(task, device=used.fingerprint, budget=budget, seed=seed, options=options)
        return _search(Search.of(kept, run, used, on_event, time.monotonic() - begun, cluster=cluster))


def resume(
    run: str,
    *,
    finish: bool = False,
    store: Path | str | None = None,
    on_event: OnEvent | None = None,
    cluster: Cluster | None = None,
) -> Result:
    """Continue a run where it stopped, or `finish` it with the best so far; a finished run returns its result again."""
    with Store(store) as kept:
        record = kept.run(run)
        check_resumable(record)
        if record.status is RunStatus.FINISHED:
            return Result.model_validate(kept.result(record.id))
        used = device_of(str(record.options["device"]), cluster)
        return _search(Search.of(kept, record, used, on_event, cluster=cluster, finish=finish))


def _search(setting: Search) -> Result:
    store, run = setting.store, setting.run
    with setting.supervised():
        try:
            problem = Problem(store.task(run.task))
            bounds = bounded(setting, problem)
            with open_judge(setting, problem, bounds) as judging:
                hints = hints_of(store, run) if run.options.get("learn", True) else ()
                outcome = search(setting, request_of(setting, problem, bounds), judging, hints)
        except (BusyError, TimeoutError) as error:
            outcome = so_far(setting, str(error))
        learn_from(store, run.id)
        result = conclude(setting, outcome)
        if outcome.interrupt is not None:
            raise outcome.interrupt
    return result


def bounded(setting: Search, problem: Problem) -> list[Bound]:
    """Profile a task and bound its search workloads."""
    device, searched = setting.device, problem.task.split(Split.SEARCH)
    with setting.timing(), setting.in_time("before anything was tried"):
        peaks, rates, profiled = measured_on(setting.cluster, problem.task) if setting.cluster else (
            peaks_of(device), rates_of(device), profile(problem, searched[0], device)
        )  # fmt: skip
    setting.emit("profile", **profiled.model_dump(mode="json"))
    with setting.in_time("before anything was tried"):
        setting.emit("captured", operations={w.name: len(recorded(problem, w).ops) for w in searched})
        bounds = [bound(problem, workload, device, peaks, rates) for workload in searched]
    setting.emit("bound", bounds=[b.model_dump(mode="json") for b in bounds])
    return bounds
