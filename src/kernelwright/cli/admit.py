"""`kernelwright admit`: tests whether a task's checks refuse wrong answers."""

from typing import TYPE_CHECKING

from ._common import Common, Taken, print_json, table

if TYPE_CHECKING:
    from ..verify import Admission


def admit(
    task: str,
    *,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Run a task's checks on wrong answers; a task that lets one pass is itself faulty.

    Exit code 1 if one passes.

    Args:
        task: The task, as for `optimize`.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..tasks import Problem
    from ..verify import admit as admission_of

    common = common or Common()
    problem = Problem((taken or Taken()).task(task))
    admission = admission_of(problem)
    if common.json:
        for name, caught in admission.caught.items():
            print_json("mutant", mutant=name, caught=caught)
        print_json("result", **admission.model_dump(mode="json"), degenerate=admission.degenerate)
    else:
        rows = [{"mutant": n, "outcome": _outcome(admission, n)} for n in admission.caught]
        table(rows, empty=f"no wrong answer could be tried on {admission.task}")
        if admission.unusable:
            print(f"the native op itself is not accurate enough on {', '.join(admission.unusable)}")
        for name, count in admission.redrawn.items():
            again = "once" if count == 1 else f"{count} times"
            print(f"drawn again {again} on {name}, where the native op itself was not accurate enough")
        for name in admission.unvaried:
            print(f"a kernel may rely on the values of {name}: they are the same in every draw")
        print("degenerate: no win on it can count" if admission.degenerate else "fit to judge by")
    return 1 if admission.degenerate else 0


def _outcome(admission: "Admission", mutant: str) -> str:
    if (regime := admission.adapted.get(mutant)) is not None:
        return "caught at other sizes only" if regime == "declared" else f"caught on {regime} values only"
    return "caught" if admission.caught[mutant] else "PASSES"
