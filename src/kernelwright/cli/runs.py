"""`kernelwright runs`: lists the runs in the store."""

from collections.abc import Mapping

from ..records import Interval, Run
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
    speedup, (status, reason) = result.get("speedup"), store.ending(run)
    return {
        "run": run.id,
        "task": run.task_name,
        "status": str(status),
        "decision": str(result.get("decision", "")),
        "speedup": speedup_text(Interval.model_validate(speedup).model_dump()) if speedup else "",
        "evaluated": str(spent.evaluations),
        "known": str(spent.cached),
        "created": run.created,
        "reason": reason,
    }
