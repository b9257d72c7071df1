"""`kernelwright bound`: the least time a device needs."""

from ..records import Split
from ._common import Common, Taken, print_json, table, time_text


def bound(
    task: str,
    *,
    device: str | None = None,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Show how fast a task could be on a device, what binds it, and how far eager is from it.

    Args:
        task: The task, as for `optimize`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..bound import bound as bound_of
    from ..bound import headroom, rates_of, sol_score
    from ..devices import detect
    from ..devices.peaks import peaks_of
    from ..profile import profile
    from ..tasks import Problem

    common = common or Common()
    problem = Problem((taken or Taken()).task(task))
    used = detect(device)
    peaks, rates = peaks_of(used), rates_of(used)
    searched = problem.task.split(Split.SEARCH)
    found = [bound_of(problem, workload, used, peaks, rates) for workload in searched]
    eager_us = {workload.name: profile(problem, workload, used).time_us for workload in searched}
    if common.json:
        for one in found:
            print_json(
                "bound",
                time_us=one.attainable_us,
                limit=one.limit,
                floor_us=one.time_us,
                binding=one.binding,
                eager_us=eager_us[one.workload],
                **one.model_dump(mode="json"),
            )
        print_json("result", task=task, bounds={one.workload: one.attainable_us for one in found})
        return 0
    rows = [
        {
            "workload": one.workload,
            "term": term.name,
            "amount": f"{term.amount:.4g} {term.unit}",
            "peak": f"{term.peak:.4g} {term.unit}/s",
            "time": time_text(term.time_us),
            "kind": term.kind + (", binds" if term.name in (one.binding, one.limit) else ""),
            "source": term.source,
        }
        for one in found
        for term in one.terms
    ]
    table(rows, empty=f"{task} has nothing to bound")
    for one in found:
        eager, twice = eager_us[one.workload], eager_us[one.workload] / 2
        print(
            f"{one.workload}: at least {time_text(one.time_us)}; attainable {time_text(one.attainable_us)}, by "
            f"{one.limit}; eager takes {time_text(eager)}, {headroom(eager, one.attainable_us):.1f} times that; "
            f"twice as fast would be a SOL score of {sol_score(twice, eager, one.attainable_us):.2f}"
        )
    return 0
