"""`kernelwright report`: one run as an HTML file."""

from pathlib import Path

from ..errors import StoreError
from ..records import Interval
from ..store import Store
from ._common import Common, bounds_of, print_json


def report(run: str, *, to: Path | None = None, common: Common | None = None) -> int:
    """Write a run as one self-contained HTML file; it needs no network.

    Args:
        run: The run's id, a prefix of it, or `last`.
        to: File to write; by default `RUN.html` in the current folder.
        common: Flags of every command.
    """
    from ..report import ReportData, render
    from ..search import Standing, accepted_of, environment_of

    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
        evaluations, events = store.evaluations(record.id), store.events(record.id)
        accepted, task = accepted_of(store, record), store.task(record.task)
        result = store.result(record.id)
    finished = {str(e["candidate"]): float(str(e["elapsed_s"])) for e in events if e["event"] == "evaluation"}
    last = {str(e["event"]): e for e in events}
    rows, stages = last.get("standing", {}).get("workloads"), last.get("spent", {}).get("stages_s")
    started = next((e for e in events if e["event"] == "run"), {})
    report_data = ReportData(
        run=record,
        task=task,
        evaluations=evaluations,
        finished_s=[finished.get(e.candidate.key, 0.0) for e in evaluations],
        bounds=bounds_of(events),
        best=accepted[0].candidate.key if accepted else None,
        speedup=Interval.model_validate(result["speedup"]) if result and result.get("speedup") else None,
        standings=[Standing.model_validate(row) for row in rows] if isinstance(rows, list) else [],
        stages_s={k: float(str(v)) for k, v in _pairs(stages)},
        environment=environment_of(events),
        reason=str((result or {}).get("reason", "")),
        reproduce=str(started.get("reproduce", "")),
    )
    path = to or Path(f"{record.id}.html")
    try:
        path.write_text(render(report_data))
    except OSError as error:
        raise StoreError(f"cannot write {path} ({error.strerror}); choose another file with --to") from error
    if common.json:
        print_json("result", run=record.id, report=str(path))
    else:
        print(path)
    return 0


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []
