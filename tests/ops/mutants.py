"""Wrong kernels of the library, each one edit away from the right one: the judge must refuse them."""

from collections.abc import Mapping
from pathlib import Path

from kernelwright.api.judge import judging
from kernelwright.api.ops import candidate_of, cases_of, task_of


def verdicts(family: str, op: str, mutants: Mapping[str, tuple[str, str]], store: Path) -> dict[str, str]:
    """Judge the kernel of an op and mutants of it; return the verdict of each by its name, '' for the kernel itself."""
    (cases,) = (one for one in cases_of(family) if one.op == op)
    found = {}
    with judging(task_of(family, cases), store=store, device="cpu") as ask:
        found[""] = ask(candidate_of(family, cases), True).verdict
        for name, change in mutants.items():
            assert change[0] in candidate_of(family, cases).sources[0].text, name
            found[name] = ask(candidate_of(family, cases, changed=change), True).verdict
    return found
