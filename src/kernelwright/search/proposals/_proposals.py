"""Proposers → one sequence of proposals for a run, and the request that they receive."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from ...errors import KernelwrightError, ModelError, fault_of
from ...learn import recall, situation_of
from ...propose import Proposal, Proposer, Request
from ...records import Bound, Candidate, Evaluation
from ...registry import Registry
from ...store import Store
from ...tasks import Problem
from ..run._run import Search
from ._concurrent import proposed

PROPOSERS = ("start", "library", "schedule", "inductor")
"""The default proposers; none of them needs a model."""
_PROPOSERS = Registry("proposers", "proposer")


def make_proposers(names: Sequence[str]) -> list[Proposer]:
    """Make the named proposers.

    Raises:
        NotFoundError: no proposer is registered under a name.
    """
    return [make() for make in map(_PROPOSERS.load, names)]


class _History(Sequence[Evaluation]):
    """A run's evaluations so far, read from the store on access."""

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
    """Return lessons from earlier runs on similar tasks, unless the run or its recipe turns them off."""
    options = setting.run.options
    if not (options.get("learn", True) and options.get("lessons", True)):
        return ()
    recalled = recall(setting.store, situation_of(setting.store, setting.run.id))
    return tuple(str(one) for one in recalled if one.lesson.evidence.run != setting.run.id)


def request_of(setting: Search, problem: Problem, bounds: Sequence[Bound]) -> Request:
    """Return everything that the proposers and editors of a run may know."""
    return Request(
        problem, setting.device, bounds, setting.names("languages"),
        seed=setting.run.seed, left_s=setting.meter.left_to_explore_s,
        options=setting.run.options, store=setting.store.folder, calls=setting.store.calls, run=setting.run.id,
        lessons=_lessons(setting),
        history=_History(setting.store, setting.run.id),
        emit=lambda message: setting.emit("proposer", message=message),
    )  # fmt: skip


def proposals_instead(setting: Search, request: Request) -> Iterator[Proposal | None]:
    """Yield proposals of the model-free proposers not asked yet, for a run whose editors bring nothing.

    Yields nothing if the run's option `instead` is false, so that every result is the editors' own.
    """
    names = setting.names("proposers") if setting.run.options.get("instead", True) else PROPOSERS
    if others := [name for name in PROPOSERS if name not in names]:
        who = ", ".join(others)
        message = f"the editors bring nothing; going on with {who}, which need no model"
        setting.emit("proposer", name=who, message=message)
        yield from proposals_of(setting, request, others)


def proposals_of(setting: Search, request: Request, names: Sequence[str] = ()) -> Generator[Proposal | None]:
    """Yield the proposals of the run's proposers, or of those named, in order and lazily.

    So the first proposer's candidates are built and timed before the next one begins, and no work of a proposer,
    such as compiling the whole task, overlaps a timing. A proposer that cannot work here, or fails, is reported and
    skipped; it is also reported if none has a proposal. While no model answers, or none is available, the proposers
    that need no model continue; None is yielded if these have no more either. Those that `proposals_late` asks are left
    out.
    """
    late, seen = [] if names else _late(setting), _Seen()
    names = tuple(names) or tuple(name for name in setting.names("proposers") if name not in late)
    if not names:
        return
    others = [name for name in PROPOSERS if name not in (*names, *late)]
    stand_ins, who = _asked(setting, request, others, seen), ", ".join(others)
    begun, may_help = False, bool(others) and bool(setting.run.options.get("instead", True))
    for proposal in _asked(setting, request, names, seen):
        if proposal is None and may_help and not begun:
            begun = True
            setting.emit("proposer", name=who, message=f"meanwhile {who} go on, which need no model")
        yield proposal if proposal is not None or not begun else next(stand_ins, None)
    if alone := bool(others) and seen.without_model and not begun and not seen.labels:
        setting.emit("proposer", name=who, message=f"no model answers; going on with {who}, which need none")
    if begun or alone:
        yield from stand_ins
    if not seen.labels:
        everybody, written = ", ".join(seen.asked), " or ".join(request.languages)
        setting.emit(
            "proposer", name=everybody, message=f"{everybody} had nothing for this task in {written}"
        )


@dataclass
class _Seen:
    """The proposals so far, and which proposer made them."""

    labels: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    without_model: bool = False


def proposals_late(setting: Search, request: Request) -> Generator[Proposal | None]:
    """Yield the proposals of those of the run's proposers that repeat a baseline which is to be beaten."""
    if late := _late(setting):
        yield from proposals_of(setting, request, late)


def _late(setting: Search) -> list[str]:
    """Name the run's proposers that are asked last; none where editors go on from what is proposed."""
    names, beaten = setting.names("proposers"), setting.names("baselines")
    if setting.names("editors"):
        return []
    return [p.name for p in make_proposers(names) if getattr(p, "repeats", None) in beaten]


def _asked(setting: Search, request: Request, names: Sequence[str], seen: _Seen) -> Iterator[Proposal | None]:
    """Ask the named proposers in order; None is yielded while one waits for an answer."""
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
            setting.emit("proposer", name=proposer.name, message=f"{proposer.name} has nothing more: {error}")
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - a proposer is third-party code; its fault ends it, not the run
            setting.emit("proposer", name=proposer.name, message=f"{proposer.name} failed: {fault_of(error)}")
