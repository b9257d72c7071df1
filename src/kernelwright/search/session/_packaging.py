"""The accepted candidates of a run → one package with its claims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ...deploy import Claim, Form, Specialisation, admits, guard, opened, package, ranges
from ...devices import Device
from ...errors import InputError, NotFoundError
from ...languages import get_language
from ...records import Candidate, Evaluation, Run, Split, Task, Workload
from ...store import Store
from ...tasks import Problem, unvaried
from ..evaluation._assignment import is_accepted, serving, speedups
from ..evaluation._size_ranges import told_sizes
from ..run._metadata import environment, environment_of, reproduce
from ..run._run import Search
from ._result import Result, result_of, standings
from ._session import Outcome, best_of

_NOT_TESTED = (
    "sizes, dtypes and layouts outside the guard: there the native op runs",
    "other devices, compilers and library versions than those above",
    "gradients",
)
_IN_FLOAT32 = (
    "errors against float64: an operator of the reference has no such form, its float32 result stood for it"
)
_FIXED = "values of {name} other than those that it has in every draw"

_REASONS = frozenset({"proposer", "edits", "budget"})
"""Events that say why something did not happen."""


def accepted_of(store: Store, run: Run) -> tuple[Evaluation, ...]:
    """Return the evaluations that a run accepted, the one serving the most workloads first."""
    names = [w.name for w in store.task(run.task).split(Split.SEARCH)]
    serves = [e.candidate.key for e in serving(store.evaluations(run.id), names).values()]
    accepted = {e.candidate.key: e for e in store.evaluations(run.id) if e.candidate.key in serves}
    return tuple(sorted(accepted.values(), key=lambda e: -serves.count(e.candidate.key)))


def accepted_with(store: Store, run: Run) -> dict[str, str]:
    """Return the environment in which a run accepted its kernels, with their compilers."""
    used = {e.candidate.language: e.build.toolchain for e in accepted_of(store, run)}
    return {**environment_of(store.events(run.id)), **_toolchains(used)}


def environment_here(device: Device, languages: Iterable[str]) -> dict[str, str]:
    """Return the environment of this moment in the same words, with the compilers of these languages.

    Example:
        >>> from kernelwright.devices import detect
        >>> sorted(environment_here(detect("cpu"), ()))[:3]
        ['device', 'kernelwright', 'microcode']
    """
    return {
        **environment(device),
        **_toolchains({name: get_language(name).toolchain() for name in languages}),
    }


def _toolchains(used: Mapping[str, str]) -> dict[str, str]:
    return {f"toolchain of {name}": toolchain for name, toolchain in sorted(used.items())}


def found_by(store: Store, run: Run, key: str = "") -> Candidate:
    """Return the candidate of a run whose key begins so; by default what it accepted, else the best that it found.

    Raises:
        NotFoundError: the run has no such candidate, or several.
    """
    known = store.evaluations(run.id)
    if key:
        named = [e for e in known if e.candidate.key.startswith(key)]
        if len(named) != 1:
            found = "several candidates" if named else "no candidate"
            raise NotFoundError(
                f"run {run.id} has {found} called {key!r}; `kernelwright show {run.id}` lists them"
            )
        return named[0].candidate
    names = tuple(w.name for w in store.task(run.task).split(Split.SEARCH))
    best = next(iter(accepted_of(store, run)), None) or best_of(tuple(known), names)
    if best is None:
        raise NotFoundError(f"run {run.id} evaluated no candidate")
    return best.candidate


def conclude(setting: Search, outcome: Outcome) -> Result:
    """Package what a run accepted, summarise it, and store the summary as the run's end."""
    run = setting.run
    told = [(e["event"], str(e["message"])) for e in setting.store.events(run.id) if e["event"] in _REASONS]
    said, cut = [words for _, words in told], [words for event, words in told if event == "budget"]
    result = result_of(run, outcome, setting.meter, _package_outcome(setting, outcome), said, cut)
    result = result.model_copy(update={"usd": setting.store.calls.spent_usd(run.id)})
    setting.emit("standing", workloads=[row.model_dump(mode="json") for row in standings(outcome)])
    setting.emit("spent", stages_s=dict(setting.meter.stages_s))
    setting.store.finish_run(run.id, outcome.status, result.model_dump(mode="json"))
    return result


def _package_outcome(setting: Search, outcome: Outcome) -> str | None:
    """Package what a run accepted into its store; return the folder, or None if nothing was accepted."""
    if not outcome.accepted:
        return None
    run, store = setting.run, setting.store
    folder = store.folder / "kernels" / run.id
    accepted = [e for e in outcome.evaluations if is_accepted(e)]
    served = outcome.served
    setting.emit(
        "serves",
        kernels={name: e.candidate.key for name, e in served.items()},
        native=[name for name in outcome.workloads if name not in served],
    )
    try:
        environment = environment_of(store.events(run.id))
        return str(package_accepted(store.task(run.task), run, accepted, folder, environment))
    except InputError as error:
        setting.emit("not-packaged", message=str(error))
        return None


def package_accepted(
    task: Task,
    run: Run,
    accepted: Sequence[Evaluation],
    folder: Path,
    environment: dict[str, str],
    form: Form = "package",
) -> Path:
    """Write the package of a run's accepted kernels in a form, and return its folder."""
    names = [w.name for w in task.split(Split.SEARCH)]
    served = serving(accepted, names)
    used = [e for e in accepted if any(s is e for s in served.values())]
    specialisations = list(_specialisations(task, used, served))
    native = [name for name in names if name not in served]
    declined = sorted(set().union(*(e.verdict.unsupported for e in used if e.verdict)))
    problem = Problem(task)
    float32 = [_IN_FLOAT32] if any(e.verdict and e.verdict.in_float32 for e in used) else []
    claim = Claim(
        task=task.name,
        task_key=task.key,
        run=run.id,
        reproduce=reproduce(task, run),
        decisions=tuple(e.decision for e in used),
        serves={name: e.candidate.key for name, e in served.items()},
        native=tuple(native),
        sizes=tuple(line for e in used for line in _told_sizes(e, specialisations)),
        contract=task.contract,
        environment={**environment, "toolchain": ", ".join(sorted({e.build.toolchain for e in used}))},
        verified=tuple(w.name for w in task.workloads if w.name not in declined),
        not_tested=(*_NOT_TESTED, *float32, *(_FIXED.format(name=name) for name in unvaried(problem))),
    )
    init = problem.init_arguments(specialisations[0].workloads[0])
    kind = run.device.partition("-")[0]
    package(task, specialisations, claim, folder, device=kind, init=init, form=form)
    return folder


def _specialisations(
    task: Task, used: Sequence[Evaluation], served: dict[str, Evaluation]
) -> Iterator[Specialisation]:
    """Yield specialisations in the order in which the guard tries them.

    First each workload on which several kernels were accepted goes to the one that serves it. Then each kernel gets
    the ranges between the sizes on which it was accepted, unless a size on which it was not is in between.
    """
    known = {w.name: w for w in task.workloads}
    faster = {e.candidate.key: _faster_on(e, known) for e in used}
    for name, server in served.items():
        if sum(known[name] in workloads for workloads in faster.values()) > 1:
            yield Specialisation(server, (known[name],))
    for evaluation in used:
        mine = faster[evaluation.candidate.key]
        others = [w for w in _timed(evaluation, known) if w not in mine]
        for workloads in ranges(mine, others):
            yield Specialisation(evaluation, workloads)
    for evaluation in used:
        mine = faster[evaluation.candidate.key]
        others = [w for w in _timed(evaluation, known) if w not in mine]
        for sizes in evaluation.sizes:
            base = known[sizes.workload]
            elsewhere = [w for w in others if not admits(guard([base], ""), w)]
            for specialisation in (Specialisation(evaluation, (base,), sizes, box) for box in sizes.boxes):
                if not any(admits(opened(specialisation, ""), w) for w in elsewhere):
                    yield specialisation


def _told_sizes(evaluation: Evaluation, specialisations: Sequence[Specialisation]) -> Iterator[str]:
    """Say which ranges a kernel serves in the package, on what evidence, and where the native op is kept."""
    key = evaluation.candidate.key
    for sizes in evaluation.sizes:
        boxes = tuple(v.box for v in specialisations if v.evaluation is evaluation and v.sizes is sizes)
        packed = sizes.model_copy(update={"boxes": boxes})
        yield from (f"{key} {line}" for line in told_sizes(packed, evidence=True))


def _faster_on(evaluation: Evaluation, known: dict[str, Workload]) -> list[Workload]:
    """Return the workloads on which a kernel was timed and found faster, including confirm workloads."""
    declined = set(evaluation.verdict.unsupported) if evaluation.verdict else set()
    found = speedups(evaluation, [name for name in known if name not in declined])
    return [known[name] for name, speedup in found.items() if speedup > 1]


def _timed(evaluation: Evaluation, known: dict[str, Workload]) -> list[Workload]:
    """Return the workloads that a kernel's ranges must not include unless it was faster there."""
    own = {w.workload for w in evaluation.decision.workloads}
    return [w for w in known.values() if w.name in own or w.split is Split.SEARCH]
