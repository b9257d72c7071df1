"""Problems → rows on a cluster: each problem is searched or judged on one node, by what does so here.

A node works in a store of its own and sends the run with the row; this process alone writes rows and the user's store.

Covers: a node that is lost in the middle: on the same machine the search is continued, elsewhere begun again, and
either way one row and one run come of it.
Does not cover: times of different machines. Each row names its device, and its speedup is of that device alone.
"""

import ast
import fcntl
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ..cluster import Cluster, Job, JobFailed, Workplace
from ..records import Budget
from ..store import Store
from ._both import Setup, Sides, judge_both, row_of, setup, unread
from ._checkout import get_suite
from ._finished import finished, laid_out
from ._journal import Journal
from ._records import NATIVE, Row, SuiteProblem
from ._search import Searching, search_all

_KEPT_S = 7 * 24 * 3600.0
"""How long a node keeps what it did, in case that nobody received it."""


def search_on(
    cluster: Cluster, given: Setup, problems: Sequence[SuiteProblem], searching: Searching, journal: Journal, *,
    ends_s: float = math.inf,
) -> Iterator[Row]:  # fmt: skip
    """Yield a row for every problem, as they are done; those in the journal are not searched again."""
    how = {"budget": searching.budget.to_json(), "arguments": repr(dict(searching.arguments))}
    keys = {problem: given.key(problem, searching.key) for problem in problems}
    yield from _rows(cluster, given, keys, journal, "search_here", {p: how for p in problems}, ends_s)


def judge_on(
    cluster: Cluster, given: Setup, problems: Sequence[SuiteProblem], kernels: Mapping[str, Path], journal: Journal
) -> Iterator[Row]:  # fmt: skip
    """Yield both verdicts on every kernel, as they are done; those in the journal are not judged again."""
    mine = {p: finished(given.suite, kernels[p.name]) for p in problems if p.name in kernels}
    keys = {p: given.key(p, *kernel.parts) for p, kernel in mine.items()}
    for problem, kernel in mine.items():
        if kernel.fault and keys[problem] not in journal.rows:
            journal.keep(keys[problem], unread(given, problem, kernel))
    how = {
        p: {"files": _texts(kernel.files), "file": str(kernel.file)}
        for p, kernel in mine.items()
        if not kernel.fault
    }
    yield from _rows(cluster, given, keys, journal, "judge_here", how, math.inf)


def _texts(files: Mapping[str, bytes]) -> str:
    return json.dumps({path: text.decode(errors="replace") for path, text in files.items()})


def _rows(
    cluster: Cluster, given: Setup, keys: Mapping[SuiteProblem, str], journal: Journal, function: str,
    how: Mapping[SuiteProblem, Mapping[str, str]], ends_s: float,
) -> Iterator[Row]:  # fmt: skip
    yield from (journal.rows[key] for key in keys.values() if key in journal.rows)
    cluster.wait()
    files = (cluster.send(given.data),)
    asked = {
        "suite": given.suite.name, "max_elements": given.max_elements, "device": given.device,
        "screen": given.screen, "minutes": given.minutes,
    }  # fmt: skip

    def jobs() -> Iterator[Job]:
        for problem, key in keys.items():
            if time.monotonic() + given.minutes * 60 > ends_s:
                return
            if key not in journal.rows:
                text = json.dumps({**asked, **how[problem], "problem": problem.model_dump(), "key": key})
                yield Job(key, f"{__name__}:{function}", text, files=files)

    named = {key: problem for problem, key in keys.items()}
    for job, answer in cluster.answers(jobs()):
        try:
            found = json.loads(answer.result())
        except JobFailed as failed:
            row = _failed(given, named[job.key], how[named[job.key]].get("file", NATIVE), failed)
        else:
            row = Row.model_validate(found["row"])
            if found["run"]:
                with Store(given.store) as store:
                    store.adopt(found["run"])
        journal.keep(job.key, row)
        yield row


def _failed(given: Setup, problem: SuiteProblem, candidate: str, failed: JobFailed) -> Row:
    def work(*_: object) -> None:
        raise failed

    return row_of(given, problem, Sides(candidate), work, minutes=math.inf)


def search_here(text: str, here: Workplace) -> str:
    """Search one problem on a node, or go on where an evaluator of this machine was lost."""
    asked = json.loads(text)
    searching = Searching(Budget.from_json(asked["budget"]), ast.literal_eval(asked["arguments"]))
    with _at_home(asked, here) as (home, given, problem):
        (row,) = search_all(given, [problem], searching, Journal(home / "rows.jsonl"))
        return _answer(row, given, here)


def judge_here(text: str, here: Workplace) -> str:
    """Judge one kernel on a node."""
    asked = json.loads(text)
    file = Path(asked["file"])
    with _at_home(asked, here) as (home, given, problem):
        journal, key = Journal(home / "rows.jsonl"), asked["key"]
        if key not in journal.rows:
            with tempfile.TemporaryDirectory() as folder:
                judged = judge_both(given, problem, laid_out(json.loads(asked["files"]), Path(folder)))
            journal.keep(key, judged)
        row = journal.rows[key].model_copy(
            update={"candidate": str(file)}
        )  # the same kernel may lie elsewhere by now
        return _answer(row, given, here)


@contextmanager
def _at_home(asked: Mapping[str, str], here: Workplace) -> Iterator[tuple[Path, Setup, SuiteProblem]]:
    """Open the folder in which this machine does this job, once nobody else does."""
    homes = here.cache / "suites"
    _sweep(homes)
    home = homes / asked["key"]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # an evaluator that was lost may take a moment to end
        options = {name: asked[name] for name in ("max_elements", "device", "screen", "minutes")}
        (data,) = here.files.values()
        with setup(get_suite(asked["suite"]), data, store=home / "store", **options) as given:
            yield home, given, SuiteProblem.model_validate(asked["problem"])


def _answer(row: Row, given: Setup, here: Workplace) -> str:
    place = here.place
    said = f"{place.host}, cores {', '.join(map(str, place.cores))}, noise {place.noise:.1%}"
    with Store(given.store) as store:
        run = store.packed(row.ours.run) if row.ours.run else ""
    row = row.model_copy(update={"device": place.device.fingerprint, "place": said})
    return json.dumps({"row": row.model_dump(mode="json"), "run": run})


def _sweep(homes: Path) -> None:
    for home in homes.glob("*") if homes.is_dir() else ():
        with suppress(OSError):
            if time.time() - home.stat().st_mtime > _KEPT_S:
                shutil.rmtree(home)
