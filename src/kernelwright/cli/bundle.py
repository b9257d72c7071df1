"""`kernelwright bundle`: candidates in a folder to take to another device."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ..errors import InputError
from ..store import Store
from ._common import Calls, Common, Taken, print_json

OF_SUITE = "suite:"
"""What precedes a file of rows."""


def bundle(
    target: str,
    *candidates: str,
    device: Annotated[str, Parameter(name="--for")],
    to: Path,
    baseline: list[str] | None = None,
    calls: Calls | None = None,
    most: Annotated[int, Parameter(name="--most")] = 8,
    wheels: bool = False,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Write one folder with which a machine without network verifies and times candidates on its device.

    There, `python3 run.py` writes records; here, `kernelwright import FOLDER` checks and decides them.

    Args:
        target: A run's id (`run:RUN`, `run:last`), whose candidates are taken; rows of a suite (`suite:ROWS`, a file
            that `suite run --to` wrote), of which every problem's are; or a task, as for `judge`.
        candidates: Of a task: source files, `file:symbol`, folders, packages, `run:RUN` or `run:RUN:KEY`.
        device: What it is for: `sm_80`, `sm_90`, `sm_100`, `sm_120`, `gfx942`, ..., or `cpu`.
        to: Folder to write, new or empty.
        baseline: Native form to measure against, as for `optimize`.
        calls: What candidates may call, as for `judge`.
        most: Candidates of a run, or of a problem, to take at most, the fastest first.
        wheels: Download the wheels that the other machine may lack, for Python 3.12 on x86-64 Linux.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..api.bundles import write
    from ..api.bundles._write import candidates_of
    from ..api.judge import OF_RUN, given

    common, taken = common or Common(), taken or Taken()
    if target.startswith(OF_SUITE):
        return _suite(target, candidates, device, to, (baseline or [], most, wheels), common)
    with Store(common.folder) as store:
        run = store.run(target.removeprefix(OF_RUN)) if target.startswith(OF_RUN) else None
        task = taken.task(store.task(run.task) if run else target, calls=calls)
        named = [given(candidate, task, store) for candidate in candidates]
        chosen = named or (candidates_of(store, run, most) if run else [])
        made = write(
            task, chosen, target=device, folder=to, store=store, baselines=baseline or (),
            run=run.id if run else "", wheels=wheels,
        )  # fmt: skip
    if common.json:
        print_json(
            "result", folder=str(to), bundle=made.key, candidates=[c.candidate for c in made.candidates]
        )
    else:
        print(f"{to}: {len(made.candidates)} candidate(s) of {made.task_name} for {made.target}")
        print(f"there: python3 run.py; then here: kernelwright import {to}{common.again}")
    return 0


def _suite(
    target: str, candidates: tuple[str, ...], device: str, to: Path, how: tuple[list[str], int, bool], common: Common
) -> int:  # fmt: skip
    """Write a folder of bundles for the rows of a suite."""
    from ..api.bundles import write_suite

    if candidates:
        raise InputError(f"{target} names its candidates itself; leave {candidates[0]!r} out")
    baselines, most, wheels = how
    rows = Path(target.removeprefix(OF_SUITE))
    with Store(common.folder) as store:
        made = write_suite(
            rows, target=device, folder=to, store=store, baselines=baselines, most=most, wheels=wheels
        )
    if common.json:
        print_json(
            "result", folder=str(to), suite=made.suite, problems=[b.problem for b in made.bundles],
            left_out=dict(made.left_out),
        )  # fmt: skip
        return 0
    for problem, why in made.left_out:
        print(f"left out: {problem}: {why}")
    print(f"{to}: {len(made.bundles)} problem(s) of {made.suite} for {made.target}")
    print(f"there: python3 run.py; then here: kernelwright import {to}{common.again}")
    return 0
