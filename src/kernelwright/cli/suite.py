"""`kernelwright suite`: a benchmark's problems, their state, and finished kernels under both verdicts."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import InputError, NotFoundError, known_names
from ._common import Common, Elements, Positive, print_json, speedup_text, table

if TYPE_CHECKING:
    from ..suites import Row, Suite, SuiteProblem

Action = Literal["show", "judge", "doctor", "write"]


def suite(
    action: Action,
    name: str,
    *what: str,
    data: Path | None = None,
    max_elements: Elements | None = None,
    device: str | None = None,
    minutes: Positive = 10.0,
    screen: bool = False,
    admit: bool = False,
    only: str = "",
    to: Path | None = None,
    seed: int = 0,
    common: Common | None = None,
) -> int:
    """Show, judge or examine a benchmark, or write the problems of one of our own.

    Args:
        action: `show NAME[/PROBLEM]` its rules and problems; `judge NAME DIR` finished kernels in its own form, by its
            rules and by ours; `doctor NAME` which problems load, and with `--admit` which are degenerate. The exit
            code of `doctor` is 1 if a problem does not load or is degenerate. `write NAME DIR` the problems of a suite
            of our own, with sizes that `--seed` draws.
        name: The benchmark, as `kernelwright suites` lists it.
        what: Of `judge`: the folder with the kernels. Of `write`: a new folder, to be passed with `--data` later.
        data: Its checkout; by default the one in KERNELWRIGHT_SUITES.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit, for both verdicts.
        device: `cpu`, `cuda` or `cuda:N`.
        minutes: Most minutes for each problem.
        screen: Of `judge`: our verdict stops where a search ranks a candidate, which never accepts it as faster.
        admit: Of `doctor`: try wrong answers on every problem too.
        only: Only problems whose name contains this.
        to: Of `judge`: file for the rows, a line of JSON each; rows that are there already are not made again.
        seed: Of `write`: what draws the sizes; the same seed writes the same texts. 0 is what others see.
        common: Flags of every command.
    """
    from ..suites import checkout_of, get_suite

    common = common or Common()
    called, _, problem = name.partition("/")
    asked = get_suite(called)
    if action != "show" and problem:
        raise InputError(f"`suite {action}` takes {called!r} alone; choose problems with --only {problem}")
    if action == "write":
        return _write(asked, what, seed, common)
    folder = checkout_of(asked, data)
    problems = tuple(p for p in asked.problems(folder) if only in p.name)
    options: dict[str, object] = {
        "max_elements": max_elements,
        "minutes": minutes,
        "device": device,
        "screen": screen,
    }
    match action:
        case "show":
            return _show(asked, folder, problems, problem, common)
        case "doctor":
            return _doctor(asked, folder, problems, options, common, admits=admit)
        case "judge":
            if len(what) != 1 or not Path(what[0]).is_dir():
                raise InputError(
                    f"`suite judge {called}` needs one folder with finished kernels; given {' '.join(what)!r}"
                )
            return _judge(
                asked, folder, problems, options | {"store": common.folder}, Path(what[0]), to, common
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


def _judge(
    asked: "Suite", folder: Path, problems: "tuple[SuiteProblem, ...]", options: dict[str, object], kernels: Path,
    to: Path | None, common: Common,
) -> int:  # fmt: skip
    from ..suites import judge_all, setup

    found = asked.candidates(kernels, problems)
    if not found:
        raise InputError(
            f"{str(kernels)!r} has no kernel named like a problem of {asked.name}; `kernelwright suite show "
            f"{asked.name}` lists them"
        )
    rows = []
    with setup(asked, folder, **options) as given:
        for row in judge_all(given, problems, found, to):
            rows.append(row)
            if common.json:
                print_json("row", **row.model_dump(mode="json"), agree=row.agree)
            else:
                print(_line(row), flush=True)
    if common.json:
        print_json("result", **_summary(rows))
    else:
        print(", ".join(f"{name}: {value}" for name, value in _summary(rows).items()))
    return 0


def _line(row: "Row") -> str:
    theirs = f"{row.theirs.speedup:.2f}x" if row.theirs.speedup else row.theirs.message.strip()[-100:]
    flags = f" [{', '.join(row.theirs.flags)}]" if row.theirs.flags else ""
    ours = ", ".join(row.ours.failed) or (
        speedup_text(row.ours.speedup.model_dump()) if row.ours.speedup else row.ours.reason
    )
    ours = f"{row.ours.verdict}, {row.ours.decision}, {ours}"
    return f"{row.problem}: theirs {row.theirs.status} {theirs}{flags}; ours {ours}"


def _summary(rows: "list[Row]") -> dict[str, int | float]:
    from ..suites import fast_p

    return {
        "kernels": len(rows),
        "correct_theirs": sum(r.theirs.status == "correct" for r in rows),
        "accepted_ours": sum(r.ours.verdict == "accepted" for r in rows),
        "disagree": sum(r.agree is False for r in rows),
        "undecided": sum(r.agree is None for r in rows),
        "fast_1_theirs": round(fast_p(rows, 1.0), 4),
        "fast_1_ours": round(fast_p(rows, 1.0, ours=True), 4),
    }
