"""Put the pieces of one run together."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import overload

from ..config import Settings
from ..deadline import deadline
from ..devices import Device
from ..errors import (
    InputError,
    KernelwrightError,
    MissingToolError,
    ModelError,
    fault_of,
)
from ..languages import get_language, language_names
from ..learn import Hint, recall, situation_of
from ..llm import Options, check_models
from ..propose import Proposal, Proposer, Request
from ..propose.agent import check_agent
from ..records import Bound, Candidate, Evaluation, Run, RunStatus, Space, Split, Task
from ..registry import Registry
from ..store import DeviceLock, Store
from ..tasks import Problem, keeps_weights
from ._about import opening
from ._beside import proposed
from ._budget import Meter
from ._builder import Builder
from ._counting import observing
from ._editing import check_strategy, edits_of
from ._evaluation import Evaluator
from ._events import Log, OnEvent
from ._protocol import Judge
from ._result import Judgement, judgement_of
from ._scheduler import Scheduler
from ._session import Outcome, Session
from .acceptance import BASELINES
from .tuners import make_tuner

PROPOSERS = ("start", "library", "schedule", "compiler")
"""Who proposes by default; none of them needs a model."""
_PROPOSERS = Registry("proposers", "proposer")
_MOST_BUILDS = 4
_GRACE_S = 5.0
"""Seconds past a run's time until what does not keep to it is cut off; what does ends with more to tell."""
_COMPILED = frozenset({"cpp", "cuda", "triton"})
_STAND_INS = frozenset({"opencl", "wgsl"})
"""Languages used by default only where none that compiles is here."""


@dataclass(frozen=True)
class Search:
    """One run under way: where it is kept, what it may use, what it has spent."""

    run: Run
    """The run, new or resumed."""
    store: Store
    """Where it is kept."""
    device: Device
    """What is timed."""
    meter: Meter
    """What it has spent."""
    say: Log
    """Where it says what happens."""
    lock: DeviceLock
    """Held while something is timed."""

    @classmethod
    def of(
        cls, store: Store, run: Run, device: Device, on_event: OnEvent | None, passed_s: float = 0.0
    ) -> "Search":
        """Take up a run where it stands; `passed_s` seconds of its time went before."""
        spent = store.spent(run.id)
        meter = Meter(run.budget, replace(spent, elapsed_s=spent.elapsed_s + passed_s))
        lock = DeviceLock(Settings.from_environment().cache / "locks", device.fingerprint)
        return cls(run, store, device, meter, Log(store, run.id, meter, on_event), lock)

    def names(self, option: str) -> tuple[str, ...]:
        """Return one of the run's options that is a list of names."""
        chosen = self.run.options.get(option, ())
        return tuple(str(name) for name in chosen) if isinstance(chosen, tuple) else ()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold the device, saying so where another run has it first.

        Raises:
            BusyError: another run has it until this one's time is up.
        """
        with self.lock.hold(lambda message: self.say("wait", message=message), left_s=self.meter.left_s):
            yield

    @contextmanager
    def in_time(self, what: str, *, grace_s: float = 0.0) -> Iterator[None]:
        """Stop what is done inside when the run's time is up, whatever it is.

        Raises:
            TimeoutError: it was; the message says what was cut off.
        """
        try:
            with deadline(max(self.meter.left_s(), 0.0) + grace_s):
                yield
        except TimeoutError:
            raise TimeoutError(
                f"time was up {what}; where one call of the reference takes long, make its sizes smaller "
                "(--max-elements N), else allow more --minutes"
            ) from None

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Hold the run, and leave behind how it ended if it does not end well.

        Raises:
            InputError: the run is of another device than the one here.
        """
        run, device = self.run, self.device
        if device.fingerprint != run.device:
            raise InputError(
                f"run {run.id} is of device {run.device}, and {device.torch_device} here is {device.fingerprint}; "
                "its times mean nothing here: start a new run with `kernelwright optimize`"
            )
        with self.store.run_lock(run.id).hold():
            try:
                self.say("run", **opening(self.store.task(run.task), run, device))
                yield
            except KeyboardInterrupt:
                self.store.finish_run(run.id, RunStatus.INTERRUPTED)
                raise
            except (KernelwrightError, OSError):
                self.store.finish_run(run.id, RunStatus.FAILED)
                raise


def search(setting: Search, request: Request, judge: Judge, hints: Sequence[Hint] = ()) -> Outcome:
    """Search within the run's budget and return what it came to; `hints` say what to try first.

    A run that was interrupted goes on where it stood: what it evaluated is asked for again, answered from
    the store, and not counted again.
    """
    run, meter = setting.run, setting.meter
    setting.say("hints", hints=[hint.model_dump(mode="json") for hint in hints])
    languages = {name: get_language(name) for name in setting.names("languages")}
    on_cpu = setting.device.kind == "cpu"
    width = max(1, min(setting.device.cores if on_cpu else _MOST_BUILDS, _MOST_BUILDS))
    tuner = str(run.options["tuner"])
    with (
        observing(setting, request.problem) as observe,
        closing(proposals_of(setting, request)) as proposals,
        Builder(languages, width=width, overlap=not on_cpu, left_s=meter.left_s) as builder,
    ):
        evaluator = Evaluator(run, setting.store, judge, languages, meter, observe)
        with edits_of(setting, request, evaluator) as edits:
            scheduler = Scheduler(
                proposals,
                lambda space: make_tuner(tuner, space, run.seed),
                edits,
                instead=proposals_instead(setting, request),
                hints=hints,
            )
            with setting.in_time("in the middle of an evaluation", grace_s=_GRACE_S):
                return Session(scheduler, builder, evaluator, meter, setting.say).run()


def so_far(setting: Search, why: str) -> Outcome:
    """Return what a run has come to that cannot go on because its time is up."""
    setting.say("budget", message=why)
    store, run = setting.store, setting.run
    names = tuple(w.name for w in store.task(run.task).split(Split.SEARCH))
    return Outcome.of(tuple(store.evaluations(run.id)), "minutes", names)


def judge_one(setting: Search, candidate: Candidate, judge: Judge, *, screen: bool = False) -> Judgement:
    """Put one candidate through the whole of the acceptance, unless the store knows it already.

    `screen` goes only as far as the search goes with each candidate: never into a hidden workload.

    Raises:
        NotFoundError: no language of that name.
        MissingToolError: the candidate's language lacks its tools.
    """
    usable_languages((candidate.language,), setting.device)
    language = get_language(candidate.language)
    evaluator = Evaluator(setting.run, setting.store, judge, {language.name: language}, setting.meter)
    known, build = evaluator.known(candidate), language.build(candidate)
    judged = known or evaluator.screen(candidate, build) if screen else evaluator.accept(candidate, build)
    return judgement_of(setting.run, judged, evaluator.workloads)


def usable_languages(asked: Sequence[str], device: Device) -> tuple[str, ...]:
    """Return the languages to use: those asked for, else all that are here and can be timed on the device.

    OpenCL and WGSL stand in where nothing else compiles: on the same device they are not faster than what does.

    Raises:
        NotFoundError: no language of that name.
        MissingToolError: a language asked for lacks its tools; the message says how to get them.
    """
    for name in asked:
        found = get_language(name).available()
        if not found.ok:
            raise MissingToolError(f"language {name!r} cannot be used: {found.what}; {found.remedy}")
    if asked:
        return tuple(asked)
    here = [name for name in language_names() if name not in _STAND_INS and _fits(name, device)]
    if not _COMPILED.intersection(here):
        here += [name for name in language_names() if name in _STAND_INS and _fits(name, device)]
    return tuple(sorted(here))


def _fits(name: str, device: Device) -> bool:
    language = get_language(name)
    return language.available().ok and language.timeable(device.kind)


def make_proposers(names: Sequence[str]) -> list[Proposer]:
    """Make the proposers of those names.

    Raises:
        NotFoundError: no proposer is registered under a name.
    """
    return [make() for make in map(_PROPOSERS.load, names)]


def check_choices(
    task: Task,
    baselines: Sequence[str],
    proposers: Sequence[str] = (),
    tuner: str = "",
    strategy: str = "",
    editors: Sequence[str] = (),
    *,
    more: Options | None = None,
    usd: float | None = None,
) -> tuple[str, ...]:
    """Check names before anything is spent.

    Returns:
        The baselines that a kernel must beat: those named, else eager, torch.compile and the existing
        kernel where there is one.

    Raises:
        NotFoundError: no proposer, tuner, strategy or editor of that name.
        InputError: no baseline of that name, or none whose weights follow; a strategy without an editor; a model
            whose name, price or cap is missing.
        MissingToolError: a model's SDK or key, or an agent's program, is not here.
    """
    make_proposers(proposers)
    check_models(more or {}, usd)
    if "agent" in {*proposers, *editors}:
        check_agent(more or {}, usd)
    check_strategy(strategy, editors, more or {})
    if tuner:
        make_tuner(tuner, Space(), 0)
    beaten = tuple(baselines) or ((*BASELINES, "start") if task.start else BASELINES)
    for baseline in beaten:
        Problem(task).baseline(baseline, task.workloads[0])
    if all(map(keeps_weights, beaten)):
        raise InputError(
            f"baseline {beaten[0]!r} keeps the weights that it is given first, so that answers in timed calls "
            "cannot be compared with its own; name another one beside it, such as 'eager'"
        )
    return beaten


class _History(Sequence[Evaluation]):
    """What a run has evaluated so far, read from the store whenever somebody looks."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run

    def __len__(self) -> int:
        return len(self._store.evaluations(self._run))

    @overload
    def __getitem__(self, index: int) -> Evaluation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Evaluation]: ...
    def __getitem__(self, index: int | slice) -> Evaluation | Sequence[Evaluation]:
        return self._store.evaluations(self._run)[index]

    def __iter__(self) -> Iterator[Evaluation]:
        return iter(self._store.evaluations(self._run))


def _lessons(setting: Search) -> tuple[str, ...]:
    """Return what earlier runs taught about tasks like this one, unless the run or its recipe is to begin afresh."""
    options = setting.run.options
    if not (options.get("learn", True) and options.get("lessons", True)):
        return ()
    recalled = recall(setting.store, situation_of(setting.store, setting.run.id))
    return tuple(str(one) for one in recalled if one.lesson.evidence.run != setting.run.id)


def request_of(setting: Search, problem: Problem, bounds: Sequence[Bound]) -> Request:
    """Say all that the proposers and editors of a run may know."""
    return Request(
        problem, setting.device, bounds, setting.names("languages"),
        seed=setting.run.seed, left_s=setting.meter.left_to_explore_s,
        options=setting.run.options, store=setting.store.folder, run=setting.run.id, lessons=_lessons(setting),
        history=_History(setting.store, setting.run.id),
        say=lambda message: setting.say("proposer", message=message),
    )  # fmt: skip


def proposals_instead(setting: Search, request: Request) -> Iterator[Proposal | None]:
    """Yield what those propose who need no model and were not asked: for a run whose editors bring nothing.

    Nothing where the run's option `instead` is false: what is found is then to be the editors' own.
    """
    names = setting.names("proposers") if setting.run.options.get("instead", True) else PROPOSERS
    if others := [name for name in PROPOSERS if name not in names]:
        who = ", ".join(others)
        message = f"the editors bring nothing; going on with {who}, which need no model"
        setting.say("proposer", name=who, message=message)
        yield from proposals_of(setting, request, others)


def proposals_of(setting: Search, request: Request, names: Sequence[str] = ()) -> Generator[Proposal | None]:
    """Yield what the run's proposers, or those named, propose, in their order, each only as far as it is asked.

    So what the first proposes is built and timed before the next begins, and nothing that a proposer does,
    such as compiling the whole task, falls into a timing. A proposer that cannot work here, or fails, is reported and
    left out; where nobody has anything that is told too. While no model answers, and where there is nobody left
    because there is none, those who need none go on; nothing is yielded where these have no more either.
    """
    names, seen = tuple(names) or setting.names("proposers"), _Seen()
    others = [name for name in PROPOSERS if name not in names]
    stand_ins, who = _asked(setting, request, others, seen), ", ".join(others)
    begun, may_help = False, bool(others) and bool(setting.run.options.get("instead", True))
    for proposal in _asked(setting, request, names, seen):
        if proposal is None and may_help and not begun:
            begun = True
            setting.say("proposer", name=who, message=f"meanwhile {who} go on, which need no model")
        yield proposal if proposal is not None or not begun else next(stand_ins, None)
    if alone := bool(others) and seen.without_model and not begun and not seen.labels:
        setting.say("proposer", name=who, message=f"no model answers; going on with {who}, which need none")
    if begun or alone:
        yield from stand_ins
    if not seen.labels:
        everybody, written = ", ".join(seen.asked), " or ".join(request.languages)
        setting.say("proposer", name=everybody, message=f"{everybody} had nothing for this task in {written}")


@dataclass
class _Seen:
    """What was proposed so far, and by whom."""

    labels: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    without_model: bool = False


def _asked(setting: Search, request: Request, names: Sequence[str], seen: _Seen) -> Iterator[Proposal | None]:
    """Ask the proposers of those names in turn; nothing is yielded while one waits in vain for an answer."""
    for proposer in make_proposers(names):
        seen.asked.append(proposer.name)
        try:
            for proposal in proposed(proposer, request):
                if proposal is None:
                    yield None
                    continue
                label = proposal.key if isinstance(proposal, Candidate) else proposal.name
                known = isinstance(proposal, Candidate) and label in seen.labels
                if proposal.language in request.languages and not known:
                    seen.labels.add(label)
                    yield proposal
        except KernelwrightError as error:
            seen.without_model |= isinstance(error, ModelError)
            setting.say("proposer", name=proposer.name, message=f"{proposer.name} has nothing more: {error}")
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a proposer is anybody's code; its fault ends it, not the run
            setting.say("proposer", name=proposer.name, message=f"{proposer.name} failed: {fault_of(error)}")
