"""`kernelwright judge`: one candidate against a task."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ._common import Common, speedup_text

_EXIT = {"accepted": 0, "rejected": 1, "unknown": 3}


def judge(
    task: str,
    candidate: str,
    *,
    device: str | None = None,
    baseline: Annotated[list[str] | None, Parameter(negative="")] = None,
    max_elements: Annotated[float | None, Parameter(validator=Number(gte=1))] = None,
    common: Common | None = None,
) -> int:
    """Verify and measure one candidate against a task.

    Exit code 0: the candidate is right and honest; 1: it is rejected; 3: a check could not run. Whether it
    is faster is the decision, and does not change the exit code.

    Args:
        task: The task, as for `optimize`.
        candidate: Source file, `file:symbol`, a solution's JSON file, or a folder.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        baseline: Native form to measure against, as for `optimize`.
        max_elements: Shrink sizes until inputs, parameters and outputs together fit.
        common: Flags of every command.
    """
    from .. import flow
    from ..records import Budget
    from ._console import reporting

    common = common or Common()
    with reporting(common.json, Budget()) as on_event:
        judgement = flow.judge(
            task,
            candidate,
            device=device,
            baselines=baseline or (),
            max_elements=None if max_elements is None else int(max_elements),
            store=common.folder,
            on_event=on_event,
        )
    if common.json:
        print(judgement.line(), flush=True)
    else:
        for finding in judgement.findings:
            print(f"{finding.status:8} {finding.check} {finding.message}".rstrip())
        speedup = judgement.speedup.model_dump() if judgement.speedup else None
        print(f"{judgement.verdict}; {judgement.decision}, {speedup_text(speedup)}", flush=True)
    return _EXIT[judgement.verdict]
