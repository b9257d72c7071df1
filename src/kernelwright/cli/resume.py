"""`kernelwright resume`: go on where a run stood."""

from ..store import Store
from ._common import Common


def resume(run: str, *, finish: bool = False, common: Common | None = None) -> int:
    """Go on with a run that was interrupted or killed; nothing is lost and nothing counted twice.

    A run that is finished says its result again.

    Args:
        run: The run's id, a beginning of it, or `last`.
        finish: Ask nobody any more, neither models nor who needs none: accept the best so far, whatever of the run's
            time and money is left, and package it.
        common: Flags of every command.
    """
    from .. import flow
    from ._console import reporting, result_text

    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
    with reporting(common, record.budget) as on_event:
        result = flow.resume(record.id, finish=finish, store=common.folder, on_event=on_event)
    print(result.line() if common.json else result_text(result, common.again), flush=True)
    return 0
