"""`kernelwright decide`: recomputes decisions from the store."""

from ..store import Store
from ._common import Common, bounds_of, print_json, table


def decide(run: str, *, recheck: bool = False, common: Common | None = None) -> int:
    """Show every decision of a run; with `--recheck` compute each again from the stored blocks.

    The decision is a pure function of the raw blocks, the verdict, the bounds and the contract, so each must be
    reproduced; otherwise the exit code is 1.

    Args:
        run: The run's id, a prefix of it, or `last`.
        recheck: Decide again and report whether the result is the same.
        common: Flags of every command.
    """
    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
        task, evaluations, events = (
            store.task(record.task),
            store.evaluations(record.id),
            store.events(record.id),
        )
    again: dict[str, str] = {}
    if recheck:
        from ..search import decides_alike

        bounds = bounds_of(events)
        for evaluation in evaluations:
            same = decides_alike(evaluation, bounds, task.contract)
            again[evaluation.candidate.key] = "same" if same else "differs"
    rows = [
        {
            "candidate": e.candidate.key,
            "stage": e.stage,
            "decision": str(e.decision.status),
            **({"recheck": again[e.candidate.key]} if recheck else {}),
            "reason": e.decision.reason,
        }
        for e in evaluations
    ]
    differ = sum(outcome == "differs" for outcome in again.values())
    if common.json:
        for row in rows:
            print_json("decision", **row)
        print_json("result", run=record.id, decisions=len(rows), differ=differ)
    else:
        table(rows, empty="no candidate was evaluated")
    return 1 if differ else 0
