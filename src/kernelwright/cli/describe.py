"""`kernelwright describe`: a task, as it is told to whoever writes a kernel for it."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ._common import Backward, Common, asked, print_json


def describe(
    task: str,
    *,
    device: str | None = None,
    max_elements: Annotated[float | None, Parameter(validator=Number(gte=1))] = None,
    backward: Backward = False,
    common: Common | None = None,
) -> int:
    """Describe a task: its reference, search workloads and contract, and the languages to write it in.

    Args:
        task: The task, as for `optimize`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit.
        backward: Take forward and backward together as one call, as `@kw.task(backward=True)` does.
        common: Flags of every command.
    """
    from ..devices import detect
    from ..search import usable_languages
    from ..tasks import brief

    common = common or Common()
    told = brief(asked(task, max_elements, backward=backward))
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
