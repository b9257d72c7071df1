"""Assembles and runs one search: judge, proposals, edits, builder and session."""

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext

from ...languages import Language, get_language
from ...learn import Hint
from ...propose import Request
from ...records import Candidate, Split
from ..editing._editing import edits_of
from ..evaluation._evaluation import Evaluator
from ..evaluation._protocol import Judge, Toolchain
from ..evaluation.remote import RemoteJudge
from ..proposals._builder import Builder
from ..proposals._proposals import proposals_instead, proposals_late, proposals_of
from ..proposals._remote_builder import RemoteBuilder
from ..proposals._scheduler import Scheduler
from ..run._run import Search
from ..tuners import DEFAULT_TUNER, make_tuner
from ._choices import usable_languages
from ._counting import observing
from ._result import Judgement, judgement_of
from ._session import Outcome, Session

_MOST_BUILDS = 4
_GRACE_S = 5.0
"""Seconds past a run's time before work is cut off; work that ends by itself can report more."""


def search(setting: Search, request: Request, judge: Judge, hints: Sequence[Hint] = ()) -> Outcome:
    """Search within the run's budget and return the outcome; `hints` suggest what to try first.

    An interrupted run continues where it stopped: its evaluations are requested again, answered from the store, and
    not counted again.
    """
    run, meter = setting.run, setting.meter
    if setting.finish:
        return _finished(setting, judge)
    setting.emit("hints", hints=[hint.model_dump(mode="json") for hint in hints])
    tuner = str(run.options["tuner"])
    with (
        nullcontext() if setting.cluster else observing(setting, request.problem) as observe,
        closing(proposals_of(setting, request)) as proposals,
        closing(proposals_late(setting, request)) as late,
        _builder(setting, judge) as builder,
    ):
        evaluator = Evaluator(run, setting.store, judge, _languages(setting, judge), meter, observe)
        with edits_of(setting, request, evaluator) as edits:
            scheduler = Scheduler(
                proposals,
                lambda space: make_tuner(tuner, space, run.seed),
                edits,
                instead=proposals_instead(setting, request),
                late=late,
                hints=hints,
                ends_at_bound=meter.budget.evaluations is None,
            )
            with setting.in_time("in the middle of an evaluation", grace_s=_GRACE_S):
                return Session(scheduler, builder, evaluator, meter, setting.emit).run()


def _languages(setting: Search, judge: Judge) -> Mapping[str, Language | Toolchain]:
    if isinstance(judge, RemoteJudge):
        return judge.languages
    return {name: get_language(name) for name in setting.names("languages")}


def _builder(setting: Search, judge: Judge) -> Builder | RemoteBuilder:
    """Return what builds ahead of the judge, here or where the judge is."""
    if isinstance(judge, RemoteJudge):
        return RemoteBuilder(judge.begin, judge.built, lambda: judge.width)
    on_cpu = setting.device.kind == "cpu"
    width = max(1, min(setting.device.cores if on_cpu else _MOST_BUILDS, _MOST_BUILDS))
    languages = {name: get_language(name) for name in setting.names("languages")}
    return Builder(
        languages, width=width, quiet=setting.quiet if on_cpu else None, left_s=setting.meter.left_s
    )


def _finished(setting: Search, judge: Judge) -> Outcome:
    """Accept the best of what a run evaluated; nobody is asked, and its editors' journal stays as it is."""
    meter = setting.meter
    with _builder(setting, judge) as builder:
        evaluator = Evaluator(setting.run, setting.store, judge, _languages(setting, judge), meter)
        nobody = Scheduler(iter(()), lambda space: make_tuner(DEFAULT_TUNER, space, setting.run.seed))
        return Session(nobody, builder, evaluator, meter, setting.emit).run()


def so_far(setting: Search, why: str) -> Outcome:
    """Return the outcome of a run that cannot continue because its time is up."""
    setting.emit("budget", message=why)
    store, run = setting.store, setting.run
    names = tuple(w.name for w in store.task(run.task).split(Split.SEARCH))
    return Outcome.of(tuple(store.evaluations(run.id)), "minutes", names)


def judge_one(setting: Search, candidate: Candidate, judge: Judge, *, screen: bool = False) -> Judgement:
    """Put one candidate through full acceptance, unless the store has its evaluation.

    With `screen`, only through what the search does with each candidate: never a hidden workload.

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
