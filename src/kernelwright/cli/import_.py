"""`kernelwright import`: records of a bundle that was run elsewhere."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import KernelwrightError
from ..store import Store
from ._common import Common, print_json, speedup_text

if TYPE_CHECKING:
    from ..api.bundles import Imported


def import_(folder: Path, *, common: Common | None = None) -> int:
    """Check the records that a bundle brought back, decide on each candidate, and keep them as a run.

    Refused are files that were changed, swapped or left out, another device, other seeds, and decisions that do not
    follow from the raw blocks. Exit code 0 otherwise, whatever was decided. Of a suite each problem is a run, and one
    that is refused keeps no other from being stored.

    Args:
        folder: The bundle's folder, with its `records`.
        common: Flags of every command.
    """
    from ..api.bundles import import_records, import_suite, is_suite

    common = common or Common()
    with Store(common.folder) as store:
        if not is_suite(folder):
            _say(import_records(folder, store), common)
            return 0
        code = 0
        for problem, found in import_suite(folder, store):
            if isinstance(found, KernelwrightError):
                code = found.exit_code
                if common.json:
                    print_json("refused", problem=problem, message=str(found))
                else:
                    print(f"{problem}: refused: {found}", file=sys.stderr)
                continue
            if not common.json:
                print(f"{problem}:")
            _say(found, common)
    return code


def _say(found: "Imported", common: Common) -> None:
    """Print what was decided, and the run that holds it."""
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
