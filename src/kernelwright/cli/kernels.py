"""`kernelwright kernels`: what was accepted on this machine, whether it is in use, and whether it still holds."""

from typing import TYPE_CHECKING, Literal

from ..errors import InputError
from ..records import Budget
from ..store import Store
from ._common import Common, print_json, program, speedup_text, table

if TYPE_CHECKING:
    from ..api.installed import AcceptedRun, Rechecked

Action = Literal["list", "recheck", "remove"]


def kernels(
    action: Action = "list", *runs: str, baseline: list[str] | None = None, common: Common | None = None
) -> int:
    """List what was accepted on this machine, judge it again after an upgrade, or take it out of use.

    `recheck` verifies and times the kernels again, with the torch, compiler, driver and microcode of today. What no
    longer holds is switched to native, in `patch`, in `torch.compile(backend="kernelwright")` and in the package that
    the store holds, until a later recheck finds that it holds again. Exit code 1: something was found to hold no more;
    3: of something it could not be told.

    Args:
        action: `list` all; `recheck`, all or those of RUNS; `remove` those of RUNS.
        runs: Ids of runs, a prefix of each, or `last`.
        baseline: Native form to measure against; by default those that each was accepted against.
        common: Flags of every command.
    """
    from ..api.installed import accepted_runs, recheck_installed, remove
    from ._console import reporting

    common = common or Common()
    with Store(common.folder) as store:
        match action:
            case "list":
                return _list(list(accepted_runs(store, runs)), common)
            case "remove":
                if not runs:
                    raise InputError("`kernels remove` needs the run whose kernels are taken out of use")
                for gone in [remove(store, run) for run in runs]:
                    _told(common, "removed", gone, f"{gone.run} {gone.task}: removed; its calls are native")
                return 0
        with reporting(common, Budget(), resumes=False) as on_event:
            found = list(recheck_installed(store, runs, baselines=baseline or (), on_event=on_event))
    return _rechecked(found, common)


def _list(found: "list[AcceptedRun]", common: Common) -> int:
    if common.json:
        for one in found:
            print_json("kernels", **one.model_dump(mode="json"))
        print_json("result", kernels=len(found))
        return 0
    rows = [
        {
            "run": one.run, "for": one.task, "against": one.baseline,
            "speedup": speedup_text(one.speedup.model_dump() if one.speedup else None),
            "state": one.state.state, "why": one.state.reason or _stale(one),
        }
        for one in found
    ]  # fmt: skip
    table(rows, empty=f"nothing was accepted in {common.folder}; `{program()} optimize FILE` searches")
    return 0


def _stale(one: "AcceptedRun") -> str:
    return f"recheck: {'; '.join(one.differs)}" if one.differs else ""


def _rechecked(found: "list[Rechecked]", common: Common) -> int:
    statuses = {kernel.status for one in found for kernel in one.kernels}
    unsure = "cannot tell" in statuses or any(not one.kernels for one in found)
    code = 1 if "no longer holds" in statuses else 3 if unsure else 0
    for one in found:
        state = f"switched to {one.state.state}" if one.switched else one.state.state
        _told(common, "rechecked", one, f"{one.run} {one.task}: {state}; {one.reason}")
    if common.json:
        print_json("result", kernels=len(found), switched=sum(one.switched for one in found))
    elif not found:
        print(f"nothing is accepted in {common.folder}, so there is nothing to recheck")
    return code


def _told(common: Common, event: str, one: "AcceptedRun | Rechecked", text: str) -> None:
    if common.json:
        print_json(event, **one.model_dump(mode="json"))
    else:
        print(text)
