"""`kernelwright suite`: a benchmark's problems, searched or judged under both verdicts, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from ..errors import InputError, NotFoundError, known_names
from ._asking import Asking
from ._clustered import Clustered
from ._common import Common, Count, Elements, Positive, print_json, table

if TYPE_CHECKING:
    from ..suites import Suite, SuiteProblem

Action = Literal["show", "run", "judge", "doctor", "report", "audit", "write"]
_JUDGED_MINUTES, _SEARCHED_MINUTES = 10.0, 3.0


@Parameter(name="*")
@dataclass(frozen=True)
class Searched:
    """Of `run`: how each problem is searched."""

    recipe: str | None = None
    """Of `run`: recipe to follow, which asks the models that are named."""
    proposer: tuple[str, ...] = ()
    """Of `run`: proposer of kernels; repeat for more. By default those of `optimize`."""
    language: tuple[str, ...] = ()
    """Of `run`: language to write kernels in; repeat for more."""
    evaluations: Count | None = None
    """Of `run`: most candidates for each problem."""
    candidates: Path | None = None
    """Of `run`: judge the finished kernels of this folder instead of searching, as `judge` does."""
    sample: Count | None = None
    """Of `run`: only so many problems, each group in proportion to its size."""
    seed: int = 0
    """Of `run`: seed of the sample and of the searches. Of `write`: what draws the sizes; 0 is what others have."""
    total_minutes: Positive | None = None
    """Of `run`: begin no problem that could end later than this; the same command goes on."""


def suite(
    action: Action,
    name: str,
    *what: str,
    data: Path | None = None,
    max_elements: Elements | None = None,
    device: str | None = None,
    minutes: Positive | None = None,
    screen: bool = False,
    admit: bool = False,
    only: str = "",
    against: Path | None = None,
    benchmark: str = "kernelbench",
    read: bool = False,
    to: Path | None = None,
    searched: Searched | None = None,
    asking: Asking | None = None,
    clustered: Clustered | None = None,
    common: Common | None = None,
) -> int:
    """Show, search, judge or examine a benchmark, or write the problems of one of our own.

    Args:
        action: `show NAME[/PROBLEM]` its rules and problems; `run NAME` search every problem, and give both verdicts on
            what is found; `judge NAME DIR` finished kernels in its own form, by its rules and by ours; `doctor NAME`
            which problems load, and with `--admit` which are degenerate. The exit code of `doctor` is 1 if a problem
            does not load or is degenerate. `report ROWS...` writes a page, a table and a summary of rows; `audit FILE`
            says what of a published result set holds; `write NAME DIR` writes the problems of a suite of our own. A
            command that was stopped goes on where it was if it is given again.
        name: The benchmark, as `kernelwright suites` lists it; of `report` and `audit` the file.
        what: Of `judge`: the folder with the kernels. Of `report`: further files of rows. Of `write`: a new
            folder, to be passed with `--data` later.
        data: Its checkout; by default the one in KERNELWRIGHT_SUITES.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit, for both verdicts.
        device: `cpu`, `cuda` or `cuda:N`.
        minutes: Most minutes for each problem; 3 for a search, else 10.
        screen: Of `judge`: our verdict stops where a search ranks a candidate, which never accepts it as faster.
        admit: Of `doctor`: try wrong answers on every problem too.
        only: Only problems whose name contains this.
        against: Of `report`: rows of an earlier run to compare with.
        benchmark: Of `audit`: the benchmark that the kernels are for.
        read: Of `audit`: run nothing, and only read the code.
        to: Of `report` and `audit`: folder for the report. Else file for the rows, a line of JSON each; rows that are
            there already are not made again. By default a file in the store for `run`, none for `judge`.
        searched: How `run` searches, and what.
        asking: Which language models `run` may ask, and within which limits for each problem. Of `judge`: the model
            that reads the kernels where a benchmark has one do so, and the limits for all of them.
        clustered: Of `run` and `judge`: on which machines.
        common: Flags of every command.
    """
    from ..suites import checkout_of, get_suite, sampled
    from ._suite_notes import note_commit, note_others
    from ._suite_run import Run, judge, search, searching

    common, searched, asking = common or Common(), searched or Searched(), asking or Asking()
    clustered = clustered or Clustered()
    usual = _SEARCHED_MINUTES if action == "run" and searched.candidates is None else _JUDGED_MINUTES
    options: dict[str, Any] = {
        "max_elements": max_elements, "minutes": minutes or usual, "device": device, "screen": screen,
    }  # fmt: skip
    _check_place(action, to)
    if action in {"report", "audit"}:
        kept = options | {"store": common.folder}
        return _told(action, (name, *what), against, benchmark, data, kept, to, common, only=only, reads=read)
    called, _, problem = name.partition("/")
    asked = get_suite(called)
    if action != "show" and problem:
        raise InputError(f"`suite {action}` takes {called!r} alone; choose problems with --only {problem}")
    if action == "write":
        return _write(asked, what, searched.seed, common)
    folder = checkout_of(asked, data)
    note_commit(asked, folder)
    problems = tuple(p for p in asked.problems(folder) if only in p.name)
    if searched.sample:
        problems = sampled(problems, searched.sample, searched.seed)
    match action:
        case "show":
            return _show(asked, folder, problems, problem, common)
        case "doctor":
            return _doctor(asked, folder, problems, options, common, admits=admit)
    kernels = _kernels(action, called, what, searched.candidates)
    whole = Run(
        suite=asked, data=folder, problems=problems, options=options | {"store": common.folder},
        to=to or (common.folder / "suites" / f"{called}.jsonl" if action == "run" else None),
        total_minutes=searched.total_minutes,
    )  # fmt: skip
    if not problems:
        raise InputError(f"{called} has no problem whose name contains {only!r}")
    if kernels is not None:
        found = _found(asked, kernels, problems)
        if not only and not searched.sample:
            note_others(asked, kernels, found)
        return judge(whole, found, asking, common, clustered)
    _check_minutes(searched.total_minutes, options["minutes"])
    how = searching(
        options["minutes"], asking, searched.evaluations, recipe=searched.recipe, proposers=searched.proposer,
        languages=searched.language, device=device, seed=searched.seed,
    )  # fmt: skip
    return search(whole, how, common, clustered)


def _check_place(action: Action, to: Path | None) -> None:
    """Refuse a place that nothing can be written to, before the work and not after it."""
    if to is None or not to.exists():
        return
    if action in {"report", "audit"} and not to.is_dir():
        raise InputError(
            f"--to {str(to)!r} is a file; `suite {action}` writes a page, a table and a summary into a folder"
        )
    if action in {"run", "judge"} and to.is_dir():
        raise InputError(
            f"--to {str(to)!r} is a folder; `suite {action}` writes rows into a file, such as rows.jsonl in it"
        )


def _told(
    action: Action, files: Sequence[str], against: Path | None, benchmark: str, data: Path | None,
    options: dict[str, Any], to: Path | None, common: Common, *, only: str, reads: bool,
) -> int:  # fmt: skip
    from ._suite_report import audit, report

    if to is None:
        raise InputError(f"`suite {action}` writes a page, a table and a summary; say where with --to DIR")
    if action == "report":
        return report(files, against, to, common)
    if len(files) != 1:
        raise InputError(f"`suite audit` takes one file or folder; given {' '.join(files)!r}")
    return audit(Path(files[0]), benchmark, data, options, to, common, only=only, reads=reads)


def _kernels(action: Action, called: str, what: Sequence[str], candidates: Path | None) -> Path | None:
    """Return the folder of finished kernels; None where there is none to judge."""
    given = [*what, *([str(candidates)] if candidates else [])]
    if action == "run" and not given:
        return None
    if len(given) != 1 or not Path(given[0]).is_dir():
        raise InputError(
            f"`suite {action} {called}` takes one folder with finished kernels; given {' '.join(given)!r}"
        )
    return Path(given[0])


def _found(asked: "Suite", kernels: Path, problems: "Sequence[SuiteProblem]") -> dict[str, Path]:
    found = asked.candidates(kernels, problems)
    if not found:
        raise InputError(
            f"{str(kernels)!r} has no kernel named like a problem of {asked.name}; `kernelwright suite show "
            f"{asked.name}` lists them"
        )
    return found


def _check_minutes(total: float | None, each: float) -> None:
    if total is not None and total < each:
        raise InputError(
            f"--total-minutes {total:g} is less than the {each:g} of one problem; allow more, or less with --minutes"
        )


def _show(
    asked: "Suite", folder: Path, problems: "tuple[SuiteProblem, ...]", name: str, common: Common
) -> int:
    if name:
        one = next((p for p in problems if p.name == name), None)
        if one is None:
            raise NotFoundError(f"{asked.name} has no problem {name!r}; {_nearest(name, problems)}")
        text = (folder / one.file).read_text()
        if common.json:
            print_json("result", **one.model_dump(mode="json"), text=text)
        else:
            print(f"{asked.name}/{one.name}: {folder / one.file}\n\n{text}")
        return 0
    if common.json:
        for one in problems:
            print_json("problem", **one.model_dump(mode="json"))
        print_json("result", problems=len(problems), rules=asked.rules.model_dump(mode="json"))
        return 0
    print(
        asked.title
        + (f"\nread at {asked.repository} {asked.commit}" if asked.repository else f"\nwritten in {folder}")
    )
    for word in ("correctness", "timing", "score", "here"):
        if said := getattr(asked.rules, word):
            print(f"{word}: {said}")
    groups = dict.fromkeys(p.group for p in problems)
    counts = [{"group": g, "problems": str(sum(p.group == g for p in problems))} for g in groups]
    table(counts, empty="the checkout has no problem of that name")
    return 0


def _write(asked: "Suite", what: tuple[str, ...], seed: int, common: Common) -> int:
    from ..suites import Written, write

    if not isinstance(asked, Written):
        raise InputError(f"{asked.name} is somebody else's and is not written; get it with `{_how(asked)}`")
    if len(what) != 1:
        raise InputError(f"`suite write {asked.name}` needs one new folder; given {' '.join(what)!r}")
    files = write(asked, Path(what[0]), seed)
    count = len(asked.problems(Path(what[0])))
    if common.json:
        print_json("result", suite=asked.name, folder=what[0], seed=seed, problems=count, files=files)
    else:
        print(f"wrote {count} problems of {asked.name} under seed {seed}; pass --data {what[0]} to use them")
    return 0


def _how(asked: "Suite") -> str:
    from ..suites import how_to_get

    return how_to_get(asked)


def _nearest(name: str, problems: "tuple[SuiteProblem, ...]") -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [p.name for p in problems], n=3, cutoff=0.3)
    return known_names("", near)


def _doctor(
    asked: "Suite", folder: Path, problems: "tuple[SuiteProblem, ...]", options: dict[str, object], common: Common,
    *, admits: bool,
) -> int:  # fmt: skip
    from ..suites import diagnose, setup

    loaded = degenerate = tried = passed = 0
    with setup(asked, folder, **options) as given:
        for found in diagnose(given, problems, admits=admits):
            loaded, degenerate = loaded + found.loads, degenerate + found.degenerate
            tried, passed = tried + found.tried, passed + len(found.passing)
            if common.json:
                print_json("problem", **found.model_dump(mode="json"), degenerate=found.degenerate)
            elif not found.loads or found.degenerate or found.reason:
                print(f"{found.problem}: {found.says}", flush=True)
    if common.json:
        print_json("result", problems=len(problems), loaded=loaded, degenerate=degenerate, admitted=admits,
                   tried=tried, caught=tried - passed)  # fmt: skip
    else:
        said = "; --admit also finds degenerate ones"
        if admits:
            said = f", {degenerate} degenerate; {tried - passed} of {tried} wrong answers caught"
        print(f"{loaded} of {len(problems)} problems load{said}")
    return int(loaded < len(problems) or degenerate > 0)
