"""`kernelwright recheck`: an exported package judged again."""

from pathlib import Path

from ..records import Budget
from ._common import Common, print_json, speedup_text

_EXIT = {"holds": 0, "no longer holds": 1, "cannot tell": 3}


def recheck(
    package: Path,
    *,
    device: str | None = None,
    baseline: list[str] | None = None,
    common: Common | None = None,
) -> int:
    """Verify and time the kernels of an exported package again, here: after an upgrade, on another machine.

    Nothing is taken from the store. Exit code 0: every kernel is right, honest and faster here as claimed; 1: one no
    longer is; 3: it could not be told of one.

    Args:
        package: Folder of the package, with its `claim.json`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        baseline: Native form to measure against, as for `optimize`. By default those that the claim names.
        common: Flags of every command.
    """
    from ..api.recheck import recheck as judge_again
    from ._console import reporting

    common = common or Common()
    with reporting(common, Budget(), resumes=False) as on_event:
        found = judge_again(package, device=device, baselines=baseline or (), on_event=on_event)
    worst = max(
        (one.status for one in found), key=lambda status: (status == "no longer holds", _EXIT[status])
    )
    if common.json:
        print_json("result", status=worst, kernels=[one.model_dump(mode="json") for one in found])
        return _EXIT[worst]
    for one in found:
        claimed, now = (
            speedup_text(s.model_dump()) if s else "not timed" for s in (one.claimed, one.speedup)
        )
        print(f"{one.candidate} {one.status}: claimed {claimed}, now {now}; {one.reason}")
    print(worst)
    return _EXIT[worst]
