"""`kernelwright import`: records of a bundle that was run elsewhere."""

from pathlib import Path

from ..store import Store
from ._common import Common, print_json, speedup_text


def import_(folder: Path, *, common: Common | None = None) -> int:
    """Check the records that a bundle brought back, decide on each candidate, and keep them as a run.

    Refused are files that were changed, swapped or left out, another device, other seeds, and decisions that do not
    follow from the raw blocks. Exit code 0 otherwise, whatever was decided.

    Args:
        folder: The bundle's folder, with its `records`.
        common: Flags of every command.
    """
    from ..api.bundles import import_records

    common = common or Common()
    with Store(common.folder) as store:
        found = import_records(folder, store)
    for one in found.judgements:
        if common.json:
            print_json("judgement", **one.model_dump(mode="json"))
        else:
            speedup = one.speedup.model_dump() if one.speedup else None
            print(f"{one.candidate}: {one.decision}, {speedup_text(speedup)} on {found.device}; {one.reason}")
    if common.json:
        print_json("result", run=found.run, device=found.device, judgements=len(found.judgements))
    else:
        print(f"run {found.run}{common.again and f' in {common.folder}'}")
    return 0
