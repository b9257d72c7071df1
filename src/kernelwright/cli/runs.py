"""`kernelwright runs`: what is in the store."""

from collections.abc import Mapping

from ..records import Interval, Run, RunStatus
from ..store import Store
from ._common import Common, print_json, program, speedup_text, table


def runs(*, common: Common | None = None) -> int:
    """List the runs in the store, the newest first.

    Args:
        common: Flags of every command.
    """
    common = common or Common()
    with Store(common.folder) as store:
        rows = [_row(store, run) for run in store.runs()]
    if common.json:
        for row in rows:
            print_json("run", **row)
        print_json("result", runs=len(rows))
    else:
        table(rows, empty=f"no runs in {common.folder}; `{program()} optimize FILE` makes one")
    return 0


def _row(store: Store, run: Run) -> Mapping[str, str]:
    result, spent = store.result(run.id) or {}, store.spent(run.id)
    speedup = result.get("speedup")
    return {
        "run": run.id,
        "task": run.task_name,
        "status": standing(store, run),
        "decision": str(result.get("decision", "")),
        "speedup": speedup_text(Interval.model_validate(speedup).model_dump()) if speedup else "",
        "evaluated": str(spent.evaluations),
        "known": str(spent.cached),
        "created": run.created,
    }


def standing(store: Store, run: Run) -> str:
    """Say how a run stands; one whose process died without a word was interrupted."""
    if run.status is RunStatus.RUNNING and not store.run_lock(run.id).held():
        return str(RunStatus.INTERRUPTED)
    return str(run.status)
