"""The accepted candidate of a run → a package with its claim."""

from pathlib import Path

from ..deploy import Claim, Variant, package
from ..errors import InputError
from ..records import Evaluation, Run, Task
from ..store import Store
from ..tasks import Problem
from ._about import environment, reproduce
from ._search import Search
from ._session import Outcome, best_of, is_accepted

_NOT_TESTED = (
    "sizes, dtypes and layouts outside the guard: there the native op runs",
    "other devices, compilers and library versions than those above",
    "gradients",
)


def accepted_of(store: Store, run: Run) -> Evaluation | None:
    """Return the evaluation that a run accepted, if it accepted one."""
    best = best_of(tuple(store.evaluations(run.id)))
    return best if best is not None and is_accepted(best) else None


def package_outcome(setting: Search, outcome: Outcome) -> str | None:
    """Package what a run accepted into its store; return the folder, or none where there is none."""
    if not outcome.accepted or outcome.best is None:
        return None
    run, store = setting.run, setting.store
    folder = store.folder / "kernels" / run.id
    try:
        return str(
            package_accepted(store.task(run.task), run, outcome.best, folder, environment(setting.device))
        )
    except InputError as error:
        setting.say("not-packaged", candidate=outcome.best.candidate.key, message=str(error))
        return None


def package_accepted(
    task: Task, run: Run, evaluation: Evaluation, folder: Path, about: dict[str, str]
) -> Path:
    """Write the package of an accepted candidate and return its folder."""
    decision, verdict = evaluation.decision, evaluation.verdict
    unsupported = set(verdict.unsupported) if verdict else set()
    slower = {w.workload for w in decision.workloads if w.speedup.median < 1}
    left_out = unsupported | slower
    timed = {w.workload for w in decision.workloads} - left_out
    workloads = tuple(w for w in task.workloads if w.name in timed)
    native = f"{', '.join(sorted(left_out))}: the kernel is slower or does not serve them, the native op runs"
    claim = Claim(
        task=task.name,
        task_key=task.key,
        run=run.id,
        reproduce=reproduce(task, run),
        decisions=(decision,),
        contract=task.contract,
        environment={**about, "toolchain": evaluation.build.toolchain},
        verified=tuple(w.name for w in task.workloads if w.name not in unsupported),
        not_tested=((native,) if left_out else ()) + _NOT_TESTED,
    )
    init = Problem(task).init_arguments(workloads[0])
    kind = run.device.partition("-")[0]
    package(task, [Variant(evaluation, workloads)], claim, folder, device=kind, init=init)
    return folder
