"""`kernelwright report`: one run, or a whole model, as an HTML file."""

from pathlib import Path

from ..errors import StoreError
from ..records import Interval
from ..store import Store
from ._common import Common, bounds_of, print_json


def report(
    run: str, *, to: Path | None = None, candidates: bool = False, common: Common | None = None
) -> int:
    """Write a run as one self-contained HTML file; it needs no network.

    The run in which a whole model was judged gives the report of the model: where its time goes before and after, what
    each kernel brought, which regions were tried and why they were dropped, and whether it is still the same model.

    Args:
        run: The run's id, a prefix of it, or `last`; for a model that was never judged as a whole, its name.
        to: File to write; by default `RUN.html` in the current folder.
        candidates: Show the candidates of a model's run, as for an op.
        common: Flags of every command.
    """
    common = common or Common()
    with Store(common.folder) as store:
        found = None if candidates else _of_model(store, run)
        name, text = found or _of_run(store, run)
    path = to or Path(f"{name}.html")
    try:
        path.write_text(text)
    except OSError as error:
        raise StoreError(f"cannot write {path} ({error.strerror}); choose another file with --to") from error
    if common.json:
        print_json("result", run=name, report=str(path))
    else:
        print(path)
    return 0


def _of_model(store: Store, run: str) -> tuple[str, str] | None:
    """Return the name and the HTML of a model's report; None where the run is no model's, or of its training."""
    from ..models import model_metadata
    from ..models.drift import Drift
    from ..report import ModelReport, render_model
    from ..search import environment_of

    if run == "last":
        run = store.run(run).id
    found = model_metadata(store, run)
    if found is None or found.result.trained:
        return None
    result, accuracy = found.result, list[tuple[str, str, str]]()
    events = store.events(result.run) if result.run else []
    if result.run:
        judged = [e for e in store.evaluations(result.run) if e.stage == "full" and e.verdict]
        accuracy = [
            (f.check, str(f.status), f.message) for e in judged[-1:] if e.verdict for f in e.verdict.findings
        ]
    started = next((e for e in events if e["event"] == "run"), {})
    data = ModelReport(
        result=result, plan=found.plan, drift=Drift.from_json(found.drift) if found.drift else None, accuracy=accuracy,
        environment=environment_of(events), reproduce=str(started.get("reproduce", "")),
    )  # fmt: skip
    return result.origin, render_model(data)


def _of_run(store: Store, run: str) -> tuple[str, str]:
    """Return the id and the HTML of one run."""
    from ..report import ReportData, render
    from ..search import Standing, accepted_of, environment_of

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
    return record.id, render(report_data)


def _pairs(value: object) -> list[tuple[str, object]]:
    return list(value.items()) if isinstance(value, dict) else []
