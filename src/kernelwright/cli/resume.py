"""`kernelwright resume`: continues a run."""

from ..store import Store
from ._clustered import Clustered
from ._common import Common


def resume(
    run: str, *, finish: bool = False, clustered: Clustered | None = None, common: Common | None = None
) -> int:
    """Continue a run that was interrupted or killed; nothing is lost and nothing counted twice.

    A finished run shows its result again.

    Args:
        run: The run's id, a prefix of it, or `last`.
        finish: Propose nothing more: accept and package the best so far, whatever is left of the run's budget.
        clustered: On which machines candidates are evaluated; those of the run's device are used.
        common: Flags of every command.
    """
    from .. import flow
    from ._console import reporting, result_text

    common = common or Common()
    with Store(common.folder) as store:
        record = store.run(run)
    clustered, device = clustered or Clustered(), record.options.get("device")
    with (
        clustered.opened(str(device) if device else None, common) as cluster,
        reporting(common, record.budget) as on_event,
    ):
        result = flow.resume(
            record.id, finish=finish, store=common.folder, on_event=on_event, cluster=cluster
        )
    print(result.line() if common.json else result_text(result, common.again), flush=True)
    return 0
