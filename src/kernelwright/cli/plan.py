"""`kernelwright plan`: what is worth changing in a whole model."""

from ._common import Common, Positive, print_json, table, time_text


def plan(
    target: str, *, minutes: Positive = 10.0, device: str | None = None, common: Common | None = None
) -> int:
    """Find where a model's time goes, what could be gained there, and what it would cost to find out.

    Nothing is searched: the model is called some dozen times, and its regions are timed inside it and bounded.

    Args:
        target: `file.py:build` (a function that returns a module and the inputs of one call), an archive of
            torch.export (`.pt2`), or `hf:NAME`: a small model of that architecture with random weights, or the model
            of a `config.json`.
        minutes: The budget that the set of regions is chosen for.
        device: `cpu`, the default and so far the only one.
        common: Flags of every command.
    """
    from ..models import plan as plan_of

    common = common or Common()
    found = plan_of(target, minutes=minutes, device=device)
    low, expected, high = found.expected
    if common.json:
        print_json(
            "result", **found.model_dump(mode="json"), ceiling=found.ceiling, expected=[low, expected, high]
        )
        return 0
    print(
        f"{found.model}: {time_text(found.time_us)} in eager torch, {time_text(found.operators_us)} of it in operators"
    )
    rows = [
        {
            "try": "yes" if r.chosen else "",
            "region": r.label,
            "kind": r.kind,
            "uses": str(r.uses),
            "time": time_text(r.time_us),
            "share": f"{r.share:.0%}",
            "bound": time_text(r.bound_us),
            "by": r.limit,
            "may save": f"{time_text(r.gain.expected)} ({r.gain.low:.3g} to {r.gain.high:.3g} us)",
            "cost": f"{r.cost_s:.0f} s",
        }
        for r in (*((found.whole,) if found.whole else ()), *found.regions)
    ]
    table(rows, empty="no region is worth a search")
    if found.whole:
        least, whole, most = found.expected_of_whole
        print(
            f"as one program: {whole:.2f} times as fast as eager ({least:.2f} to {most:.2f}); this is tried first"
        )
    print(
        f"with the regions to try: {expected:.2f} times as fast as eager ({low:.2f} to {high:.2f}); "
        f"at most {found.ceiling:.2f} times if they took no time"
    )
    for line in (
        *found.notes,
        *(f"graph break: {b}" for b in found.breaks),
        *(f"native: {n}" for n in found.native),
    ):
        print(line)
    return 0
