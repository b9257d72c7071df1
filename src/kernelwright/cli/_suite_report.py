"""`kernelwright suite report` and `suite audit`: what a file of rows, or a published result set, comes to."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ._common import Common, print_json

if TYPE_CHECKING:
    from ..suites import Row


def report(files: Sequence[str], against: Path | None, to: Path, common: Common) -> int:
    """Write the report of files of rows, against the rows of an earlier run if they are given."""
    rows = [row for file in files for row in _rows(Path(file))]
    earlier = _rows(against) if against else []
    title = ", ".join(dict.fromkeys(row.suite for row in rows))
    return write(rows, to, common, title=title, earlier=earlier)


def write(
    rows: "Sequence[Row]", to: Path, common: Common, *, title: str, earlier: "Sequence[Row]" = (),
    notes: Sequence[str] = (),
) -> int:  # fmt: skip
    """Write `report.html`, `report.csv` and `report.md` into the folder and print the headline."""
    from ..report import SuiteReport, headline, render_suite, suite_csv, suite_markdown

    told = SuiteReport(
        title=title, rows=rows, earlier=earlier, notes=notes,
        reproduce=shlex.join(["kernelwright", *sys.argv[1:]]),
    )  # fmt: skip
    to.mkdir(parents=True, exist_ok=True)
    texts = {"html": render_suite(told), "csv": suite_csv(rows), "md": suite_markdown(told)}
    for suffix, text in texts.items():
        (to / f"report.{suffix}").write_text(text)
    files = [to / f"report.{suffix}" for suffix in texts]
    if common.json:
        print_json(
            "result", **told.summary.model_dump(mode="json"), files=[str(file) for file in files],
            changes=[c.model_dump(mode="json") for c in told.changed],
        )  # fmt: skip
    else:
        print(headline(told.summary))
        print("\n".join(map(str, files)))
    return 0


def audit(
    path: Path, benchmark: str, data: Path | None, options: dict[str, Any], to: Path, common: Common,
    *, only: str, reads: bool,
) -> int:  # fmt: skip
    """Judge what a published result set holds, or with `reads` only read it, and write one page."""
    from ..suites import audit_all, find_checkout, get_suite, how_to_get, read_published, setup, standing_of
    from ._suite_notes import note_commit
    from ._suite_run import line

    if not path.exists():
        raise InputError(
            f"{str(path)!r} does not exist; expected a JSON file of results or a folder of kernels"
        )
    suite = get_suite(benchmark)
    found = data or (path if path.is_dir() and (path / "definitions").is_dir() else None)
    checkout = find_checkout(suite, found)
    if checkout:
        note_commit(suite, checkout)
    problems = suite.problems(checkout) if checkout else ()
    published = [p for p in read_published(path, suite, problems, checkout) if only in p.label]
    if not published:
        raise InputError(f"{str(path)!r} has no kernel whose name contains {only!r}")
    rows: list[Row] = []

    def follow(made: "Sequence[Row] | Any") -> None:
        for row in made:
            rows.append(row)
            if common.json:
                print_json("row", **row.model_dump(mode="json"), standing=standing_of(row))
            elif not reads:
                print(
                    f"[{len(rows)}/{len(published)}] {standing_of(row)}: {line(row)}",
                    file=sys.stderr,
                    flush=True,
                )

    kept = to / "rows.jsonl"
    notes = [f"Audit of {path.name}, published for {suite.title}."]
    if reads or checkout is None:
        missing = (
            ""
            if reads
            else f": there is no checkout of {suite.name} here; get one with `{how_to_get(suite)}`"
        )
        notes.append(f"Nothing was run{missing}. What stands out was read from the code and is no verdict.")
        follow(audit_all(suite, published, None, kept))
    else:
        with setup(suite, checkout, **options) as given:
            follow(audit_all(suite, published, given, kept, gpu=bool(options["device"] not in {None, "cpu"})))
    claims = [row.claimed for row in rows if row.claimed and row.claimed > 0]
    if claims:
        notes.append(_claims(rows, claims))
    return write(rows, to, common, title=f"audit of {path.name}", notes=notes)


def _claims(rows: "Sequence[Row]", claims: Sequence[float]) -> str:
    from statistics import geometric_mean

    from ..suites import gain_ours, standing_of

    run = [row for row in rows if row.claimed and row.claimed > 0 and standing_of(row) != "unknown"]
    said = f"Published: geometric mean {geometric_mean(claims):.2f} over {len(claims)} kernels."
    if not run:
        return f"{said} None of them could be judged here."
    claimed = geometric_mean([row.claimed for row in run if row.claimed])
    held = geometric_mean([gain_ours(row) for row in run])
    return f"{said} Of the {len(run)} judged here: {claimed:.2f} published, {held:.2f} by our verdict."


def _rows(file: Path) -> "list[Row]":
    from ..suites import read_rows

    if not file.is_file():
        raise InputError(
            f"{str(file)!r} is no file; expected rows, as `kernelwright suite run --to FILE` writes them"
        )
    rows = list(read_rows(file))
    if not rows:
        raise InputError(
            f"{str(file)!r} has no row; expected lines as `kernelwright suite run --to FILE` writes them"
        )
    return rows
