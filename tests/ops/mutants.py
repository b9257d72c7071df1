"""Wrong kernels of the library, each one edit away from the right one: the judge must refuse them."""

from collections.abc import Mapping
from pathlib import Path

from kernelwright.api.judge import judging
from kernelwright.api.ops import candidate_of, cases_of, task_of
from kernelwright.records import Candidate, SourceFile


def mutant_of(made: Candidate, change: tuple[str, str]) -> Candidate:
    """Return the candidate with one edit in the one of its files that has the text."""
    assert sum(change[0] in source.text for source in made.sources) == 1, change[0]
    sources = tuple(SourceFile(path=s.path, text=s.text.replace(*change)) for s in made.sources)
    return made.model_copy(update={"sources": sources})


def verdicts(
    family: str,
    op: str,
    mutants: Mapping[str, tuple[str, str]],
    store: Path,
    *,
    at: int = 0,
    screen: bool = True,
) -> dict[str, str]:
    """Judge the kernel of an op and mutants of it; return the verdict of each by its name, '' for the kernel itself.

    `at` counts the cases of the op, where it has several; without `screen` the hidden workloads are judged too.
    """
    cases = [one for one in cases_of(family) if one.op == op][at]
    made = candidate_of(family, cases)
    with judging(task_of(family, cases), store=store, device="cpu") as ask:
        found = {"": ask(made, screen).verdict}
        return found | {
            name: ask(mutant_of(made, change), screen).verdict for name, change in mutants.items()
        }
