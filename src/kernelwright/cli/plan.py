"""`kernelwright plan`: what is worth changing in a whole model."""

from pathlib import Path
from typing import TYPE_CHECKING

from ._common import Common, Positive, print_json, table, time_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ..models import Gain, Plan, PlannedRegion, SizedPlan


def plan(
    target: str,
    *,
    minutes: Positive = 10.0,
    device: str | None = None,
    workload: list[str] | None = None,
    trace: Path | None = None,
    common: Common | None = None,
) -> int:
    """Find where a model's time goes, what could be gained there, and what it would cost to find out.

    Nothing is searched: the model is called some dozen times, and its regions are timed inside it and bounded.

    Args:
        target: `file.py:build` (a function that returns a module and the inputs of one call), an archive of
            torch.export (`.pt2`), or `hf:NAME`: a small model of that architecture with random weights, or the model
            of a `config.json`.
        minutes: The budget that the set of regions is chosen for.
        device: `cpu`, the default, or `cuda`, `cuda:N`.
        workload: Sizes at which the model is called, and the share of its calls, such as `batch=1,seq=1:80`; repeat for
            more. The function that builds the model takes the sizes by name.
        trace: A trace of the model on a GPU that `torch.profiler` exported, `.json` or `.json.gz`: launches, idle time,
            and the chains of kernels that regions would fuse.
        common: Flags of every command.
    """
    from ..errors import InputError
    from ..models import plan as plan_of
    from ..models import plan_sizes, sizes_of

    common = common or Common()
    if workload and trace:
        raise InputError("--trace is of one call's sizes; leave --workload out, or plan without the trace")
    if workload:
        sized = plan_sizes(target, [sizes_of(text) for text in workload], minutes=minutes, device=device)
        _print_sized(sized, as_json=common.json)
        return 0
    found = plan_of(target, minutes=minutes, device=device, trace=trace)
    if common.json:
        print_json(
            "result", **found.model_dump(mode="json"), ceiling=found.ceiling, expected=list(found.expected)
        )
        return 0
    _print(found)
    return 0


def _print(found: "Plan") -> None:
    from ._traced import print_report

    print(
        f"{found.model}: {time_text(found.time_us)} in eager torch, {time_text(found.operators_us)} of it in operators"
    )
    rows = (*((found.whole,) if found.whole else ()), *found.regions)
    table([_row(found, row) for row in rows], empty="no region is worth a search")
    if found.whole:
        first = "this is tried first" if found.whole.chosen else "its regions are worth more"
        print(f"as one program: {_times(found.expected_of_whole)}; {first}")
    print(
        f"with the regions to try: {_times(found.expected)}; at most {found.ceiling:.2f} times if they took no time"
    )
    if found.decided_s:
        print(
            f"a decision takes about {found.decided_s:.0f} s more here: {found.chance:.0%} within the minutes"
        )
    if found.trace:
        print_report(found.trace)
    for line in (
        *found.notes,
        *(f"graph break: {b}" for b in found.breaks),
        *(f"native: {n}" for n in found.native),
    ):
        print(line)


def _row(found: "Plan", row: "PlannedRegion") -> dict[str, str]:
    cells = {
        "try": "yes" if row.chosen else "",
        "region": row.label,
        "kind": row.kind,
        "uses": str(row.uses),
        "time": time_text(row.time_us),
        "share": f"{row.share:.0%}",
        "bound": time_text(row.bound_us),
        "by": row.limit,
        "may save": _gain(row.gain),
        "cost": f"{row.cost_s:.0f} s",
        "decided": f"{row.chance:.0%}",
    }
    if found.trace and found.trace.device:
        fused = [found.trace.device.chains[place] for place in row.chains]
        cells["fused on the device"] = "; ".join(
            f"{chain.saved_launches} launches, {time_text(chain.saved_host_us)} of the host"
            for chain in fused
        )
    return cells


def _print_sized(found: "SizedPlan", *, as_json: bool) -> None:
    whole, regions = found.speedups(whole=True), found.speedups(whole=False)
    if as_json:
        rows: list[JsonValue] = [row.model_dump(mode="json") for row in found.regions]
        print_json(
            "result", **found.model_dump(mode="json"), time_us=found.time_us, regions=rows,
            expected_of_whole=list(whole), expected=list(regions),
        )  # fmt: skip
        return
    print(f"{found.model}: {time_text(found.time_us)} in eager torch, in the mean over all calls")
    for part in found.parts:
        plan = part.plan
        print(
            f"  {part.name}: {part.weight:.0%} of the calls, {part.weight * plan.time_us / found.time_us:.0%} of the "
            f"time, {time_text(plan.time_us)}; as one program {_times(plan.expected_of_whole)}"
        )
    table(
        [
            {
                "region": row.label,
                "kind": row.kind,
                "time": time_text(row.time_us),
                "share": f"{row.share:.0%}",
                "may save": _gain(row.gain),
                "cost": f"{row.cost_s:.0f} s",
                "try at": "; ".join(row.sizes),
            }
            for row in found.regions
        ],
        empty="no region is worth a search",
    )
    print(
        f"all calls, as one program at each size: {_times(whole)}; with the regions to try: {_times(regions)}"
    )


def _gain(gain: "Gain") -> str:
    return f"{time_text(gain.expected)} ({gain.low:.3g} to {gain.high:.3g} us)"


def _times(speedups: tuple[float, float, float]) -> str:
    low, expected, high = speedups
    return f"{expected:.2f} times as fast as eager ({low:.2f} to {high:.2f})"
