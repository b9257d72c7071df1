"""`kernelwright profile`: where the time of the native op goes."""

from ._common import Common, Taken, print_json, table, time_text


def profile(
    task: str,
    *,
    device: str | None = None,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Profile a task's reference in eager torch: operators and submodules, and the most each could give.

    Args:
        task: The task, as for `optimize`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        taken: How the task is taken.
        common: Flags of every command.
    """
    from ..devices import detect
    from ..profile import OpShare, SubmoduleShare
    from ..profile import profile as profile_of
    from ..records import Split
    from ..tasks import Problem

    common = common or Common()
    problem = Problem((taken or Taken()).task(task))
    found = profile_of(problem, problem.task.split(Split.SEARCH)[0], detect(device))
    if common.json:
        print_json("result", **found.model_dump(mode="json"))
        return 0
    print(f"{found.task} on {found.workload}: {time_text(found.time_us)} in eager torch")
    parts: list[OpShare | SubmoduleShare] = [*found.operators, *found.submodules]
    rows = [
        {
            "part": part.name,
            "calls": f"{part.calls:g}",
            "time": time_text(part.time_us),
            "share": f"{part.share:.0%}",
            "at most": f"{part.most_speedup:.2f}x",
        }
        for part in parts
    ]
    table(rows, empty="nothing was called")
    return 0
