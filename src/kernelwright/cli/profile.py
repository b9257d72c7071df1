"""`kernelwright profile`: where the time of the native op goes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ._common import Common, Taken, print_json, table, time_text

if TYPE_CHECKING:
    from ..devices import Device
    from ..records import Counters
    from ..tasks import Problem


def profile(
    task: str,
    *,
    counters: bool = False,
    trace: Path | None = None,
    device: str | None = None,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Profile a task's reference in eager torch: operators and submodules, and the most each could gain.

    Args:
        task: The task, as for `optimize`.
        counters: Also collect counters of the existing kernel, else of the native op in eager torch, with the available
            profilers, which `kernelwright doctor` lists.
        trace: A trace of the op on a GPU that `torch.profiler` exported, `.json` or `.json.gz`: launches, idle time and
            chains of kernels after the profile.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..devices import detect
    from ..profile import Share
    from ..profile import profile as profile_of
    from ..profile.trace import analyse, read_trace
    from ..records import Split
    from ..tasks import Problem
    from ._traced import print_report

    common = common or Common()
    seen = analyse(read_trace(trace)) if trace else None
    problem, used = Problem((taken or Taken()).task(task)), detect(device)
    found = profile_of(problem, problem.task.split(Split.SEARCH)[0], used)
    counted = _counted(problem, used) if counters else ()
    if common.json:
        print_json(
            "result", **found.model_dump(mode="json"), counters=[c.model_dump(mode="json") for c in counted],
            trace=seen.model_dump(mode="json") if seen else None,
        )  # fmt: skip
        return 0
    print(f"{found.task} on {found.workload}: {time_text(found.time_us)} in eager torch")
    parts: list[Share] = [*found.operators, *found.submodules]
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
    if seen:
        print_report(seen)
    for one in counted:
        print(one)
    if counters and not counted:
        print("no profiler counts here: see kernelwright doctor", file=sys.stderr)
    return 0


def _counted(problem: "Problem", device: "Device") -> "tuple[Counters, ...]":
    """Collect counters of the existing kernel if there is one, else of the reference."""
    from ..languages import get_language
    from ..profile import Counting
    from ..records import Split

    first = problem.task.split(Split.SEARCH)[0]
    kernel = problem.start() or problem.baseline("eager", first)
    build = get_language(kernel.language).build(kernel)
    with Counting(problem, device, note=lambda message: print(message, file=sys.stderr)) as counting:
        return counting(kernel, build)
