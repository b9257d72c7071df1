"""`kernelwright describe`: a task, as it is told to whoever writes a kernel for it."""

from ._common import Common, Taken, print_json


def describe(
    task: str,
    *,
    device: str | None = None,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Describe a task: its reference, search workloads and contract, and the languages to write it in.

    Args:
        task: The task, as for `optimize`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        taken: How the task is taken.
        common: Flags of every command.
    """
    from ..devices import detect
    from ..search import usable_languages
    from ..tasks import brief

    common = common or Common()
    told = brief((taken or Taken()).task(task))
    used = detect(device)
    told |= {"device": used.name, "languages": list(usable_languages((), used))}
    if common.json:
        print_json("result", **told)
        return 0
    for name in ("task", "entry", "style", "device", "languages", "contract", "hidden_workloads", "notes"):
        print(f"{name:17} {told[name]}")
    workloads = told["workloads"]
    for workload in workloads if isinstance(workloads, list) else ():
        print(f"workload          {workload}")
    for kind in ("reference", "start"):
        files = told[kind]
        for path, text in (files if isinstance(files, dict) else {}).items():
            print(f"\n--- {kind}: {path}\n{text}")
    return 0
