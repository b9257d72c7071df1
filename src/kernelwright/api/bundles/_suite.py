"""Rows of a suite → one folder with a bundle for each problem; and all of them back.

Covers: the last row of each problem whose run in the store found something right that the target can time.
Does not cover: more than each bundle on its own; every check of `_import.py` is made for each.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...errors import InputError, KernelwrightError, NotFoundError
from ...languages import get_language
from ...records import Candidate, Record
from ...store import Store
from ...suites import Row, read_rows
from ._import import Imported, import_records
from ._manifest import RUN, check_target, kind_of, read_record
from ._write import candidates_of, write

LISTED = "suite.json"
_README = """# {count} problems of {suite} for {target}

Take this folder to a machine with {target}, Python 3.11 or later, torch 2.11 or later and what the languages of the
candidates need. It needs no network. There:

    python3 run.py

verifies and times the candidates of each folder in turn, and goes on where it was if it is given again. Bring the whole
folder back:

    kernelwright import FOLDER
"""


class Listed(Record):
    """One problem of the folder."""

    problem: str
    """Its name in the suite."""
    folder: str
    """The bundle's folder."""


class SuiteBundle(Record):
    """What a folder of bundles holds."""

    suite: str
    """The benchmark's name."""
    target: str
    """Where to run it."""
    bundles: tuple[Listed, ...]
    """Its bundles in order."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Problems without a bundle, and why."""


def write_suite(
    rows: Path, *, target: str, folder: Path, store: Store, baselines: Sequence[str] = (), most: int = 8,
    wheels: bool = False,
) -> SuiteBundle:  # fmt: skip
    """Write a folder of bundles, one for each problem of a suite's rows.

    Args:
        rows: A file that `kernelwright suite run --to` wrote.
        target: `sm_90`, `gfx942`, ... or `cpu`.
        folder: A folder that does not exist, or is empty.
        store: Holds the runs that the rows name, and remembers the bundles.
        baselines: Native forms to beat; by default as for `optimize`.
        most: Candidates of a problem at most, the fastest first.
        wheels: Download wheels into each bundle.

    Raises:
        InputError: no such rows, or none with a candidate for the target.
    """
    check_target(target)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder; name a new one with --to")
    found = _latest(rows)
    bundles, left_out = [], []
    for row in found:
        name = re.sub(r"[^\w.-]+", "-", row.problem)
        try:
            run = store.run(row.ours.run) if row.ours.run else None
            if run is None:
                raise NotFoundError("it has no run")
            chosen = _timed(candidates_of(store, run, most), target)
            task = store.task(run.task)
            write(
                task, chosen, target=target, folder=folder / name, store=store, baselines=baselines, run=run.id,
                wheels=wheels,
            )  # fmt: skip
        except (NotFoundError, InputError) as error:
            left_out.append((row.problem, str(error)))
            continue
        bundles.append(Listed(problem=row.problem, folder=name))
    if not bundles:
        why = f"; of {left_out[0][0]}: {left_out[0][1]}" if left_out else ""
        raise InputError(f"{rows} names no candidate to take to {target}{why}")
    made = SuiteBundle(suite=found[0].suite, target=target, bundles=tuple(bundles), left_out=tuple(left_out))
    (folder / LISTED).write_text(made.to_json())
    shutil.copyfile(Path(__file__).with_name("run_suite.py"), folder / RUN)
    (folder / "README.md").write_text(_README.format(count=len(bundles), suite=made.suite, target=target))
    return made


def is_suite(folder: Path) -> bool:
    """Tell whether a folder holds bundles of a suite."""
    return (folder / LISTED).is_file()


def import_suite(folder: Path, store: Store) -> Iterator[tuple[str, Imported | KernelwrightError]]:
    """Import each bundle of a folder: yield the problem, and what came of it or why it was refused.

    Raises:
        InputError: the list cannot be read.
    """
    listed = read_record(SuiteBundle, folder / LISTED)
    for one in listed.bundles:
        if Path(one.folder).name != one.folder:
            raise InputError(f"{folder / LISTED} names {one.folder!r}; expected a folder in {folder}")
        try:
            yield one.problem, import_records(folder / one.folder, store)
        except KernelwrightError as error:
            yield one.problem, error


def _latest(rows: Path) -> list[Row]:
    """Return the last row of each problem."""
    if not rows.is_file():
        raise InputError(f"{rows} is no file; expected rows that `kernelwright suite run --to FILE` wrote")
    latest = {row.problem: row for row in read_rows(rows)}
    if not latest:
        raise InputError(
            f"{rows} holds no rows; expected those that `kernelwright suite run --to FILE` wrote"
        )
    return list(latest.values())


def _timed(candidates: Sequence[Candidate], target: str) -> list[Candidate]:
    """Return the candidates that the target's device can time."""
    kept = [c for c in candidates if get_language(c.language).timeable(kind_of(target))]
    if not kept:
        named = ", ".join(sorted({c.language for c in candidates}))
        raise InputError(f"its candidates are in {named}, which is not timed on {target}")
    return kept
