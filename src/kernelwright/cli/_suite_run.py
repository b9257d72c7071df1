"""`kernelwright suite run`: every problem of a benchmark, searched or judged, with progress and the time left."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._asking import Asking
from ._clustered import Clustered
from ._common import Common, print_json, program, speedup_text

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..suites import Row, Searching, Suite, SuiteProblem


@dataclass(frozen=True)
class Run:
    """What `suite run` was asked for."""

    suite: "Suite"
    data: Path
    problems: "Sequence[SuiteProblem]"
    options: dict[str, Any]
    """Fields of `Setup`."""
    to: Path | None
    """File for the rows; None to keep none."""
    total_minutes: float | None = None

    @property
    def device(self) -> str | None:
        """The device's name, if one was named."""
        found: str | None = self.options["device"]
        return found


def searching(
    minutes: float, asking: Asking, evaluations: int | None, *, recipe: str | None, proposers: Sequence[str],
    languages: Sequence[str], device: str | None, seed: int,
) -> "Searching":  # fmt: skip
    """Return how problems are searched; every name is checked before the first search."""
    from ..devices import detect
    from ..errors import InputError
    from ..llm import check_models
    from ..records import Budget
    from ..search import PROPOSERS, make_proposers, usable_languages
    from ..search.recipe import load_recipe
    from ..suites import Searching

    if recipe and not asking.model:
        raise InputError("recipes ask a language model, and none was named; add --model NAME (docs/llm.md)")
    composed = load_recipe(recipe).arguments() if recipe else {}
    usual = composed.get("proposers", (*PROPOSERS, "llm") if asking.model else PROPOSERS)
    chosen = tuple(proposers) or tuple(usual)
    make_proposers(chosen)
    check_models(asking.options, asking.usd)
    arguments = {
        **composed, "proposers": chosen, "languages": usable_languages(tuple(languages), detect(device)),
        "seed": seed, "learn": False, "more": {**composed.get("more", {}), **asking.options},
    }  # fmt: skip
    return Searching(Budget(evaluations=evaluations, minutes=minutes, usd=asking.usd), arguments)


def search(asked: Run, how: "Searching", common: Common, clustered: Clustered) -> int:
    """Search every problem and report both verdicts."""
    from ..suites import Journal, search_all, search_on, setup

    ends_s = time.monotonic() + asked.total_minutes * 60 if asked.total_minutes else float("inf")
    journal = Journal(asked.to)
    with (
        clustered.opened(asked.device, common) as cluster,
        setup(asked.suite, asked.data, **asked.options) as given,
    ):
        rows = (
            search_all(given, asked.problems, how, journal, ends_s=ends_s)
            if cluster is None
            else search_on(cluster, given, asked.problems, how, journal, ends_s=ends_s)
        )
        return _follow(asked, rows, common, cluster)


def judge(asked: Run, kernels: dict[str, Path], asking: Asking, common: Common, clustered: Clustered) -> int:
    """Judge finished kernels and report both verdicts."""
    from ..errors import InputError
    from ..suites import Journal, judge_all, judge_on, reading, setup

    if asking.model and clustered.cluster:
        raise InputError("models are asked from this machine; leave --cluster out, or --model")
    with ExitStack() as stack:
        cluster = stack.enter_context(clustered.opened(asked.device, common))
        options = dict(asked.options)
        if asking.model:
            reader = reading(asked.suite, options["store"], asking.options, asking.usd)
            options["reader"] = stack.enter_context(reader)
        given = stack.enter_context(setup(asked.suite, asked.data, **options))
        rows = (
            judge_all(given, asked.problems, kernels, asked.to)
            if cluster is None
            else judge_on(cluster, given, asked.problems, kernels, Journal(asked.to))
        )
        return _follow(asked, rows, common, cluster, of=len(kernels))


def _follow(
    asked: Run, rows: "Iterator[Row]", common: Common, cluster: "Cluster | None", of: int | None = None
) -> int:
    from ..suites import summary_of

    done: list[Row] = []
    whole = len(asked.problems) if of is None else of
    with _told_when_cut_short(done, whole, asked.to):
        for row in rows:
            done.append(row)
            width = max(1, len(cluster.places)) if cluster else 1
            left_s = sum(r.seconds for r in done) / len(done) * (whole - len(done)) / width
            if common.json:
                print_json(
                    "row", **row.model_dump(mode="json"), agree=row.agree, done=len(done), of=whole, left_s=left_s
                )  # fmt: skip
            else:
                print(
                    f"[{len(done)}/{whole}, {_clock(left_s)} left] {line(row)}", file=sys.stderr, flush=True
                )
    summary = summary_of(done)
    stopped = "" if len(done) == whole else f"stopped by --total-minutes after {len(done)} of {whole}"
    if common.json:
        print_json("result", **summary.model_dump(mode="json"), rows=str(asked.to or ""), stopped=stopped)
        return 0
    print(
        ", ".join(f"{name}: {value}" for name, value in summary.model_dump().items() if name != "standings")
    )
    print(", ".join(f"{count} {name}" for name, count in summary.standings.items()))
    if stopped:
        print(f"{stopped}; the same command goes on")
    if asked.to:
        print(f"rows: {asked.to}\nnext: {program()} suite report {asked.to} --to DIR")
    return 0


@contextmanager
def _told_when_cut_short(done: "Sequence[Row]", whole: int, to: Path | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        where = f", in {to}; the same command goes on" if to else ""
        print(f"{len(done)} of {whole} problems are done{where}", file=sys.stderr)
        raise


def line(row: "Row") -> str:
    """Format a row as one line: problem, the benchmark's verdict, ours."""
    said = row.theirs.message.strip().splitlines()
    theirs = f"{row.theirs.speedup:.2f}x" if row.theirs.speedup else (said[-1][-100:] if said else "")
    flags = f" [{', '.join(row.theirs.flags)}]" if row.theirs.flags else ""
    ours = ", ".join(row.ours.failed) or (
        speedup_text(row.ours.speedup.model_dump()) if row.ours.speedup else row.ours.reason
    )
    ours = f"{row.ours.told}, {row.ours.decision}, {ours}"
    return f"{row.problem}: theirs {row.theirs.status} {theirs}{flags}; ours {ours}"


def _clock(seconds: float) -> str:
    """Format seconds as hours and minutes, or minutes and seconds.

    Example:
        >>> _clock(75), _clock(7260)
        ('1:15', '2:01 h')
    """
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole // 60 % 60:02d} h"
