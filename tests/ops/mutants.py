"""Wrong kernels, each one edit away from the right one, which the judge must refuse."""

from pathlib import Path

from kernelwright.api.judge import judging
from kernelwright.api.ops import candidate_of, cases_of, task_of
from kernelwright.records import Candidate, SourceFile


def mutant_of(made: Candidate, change: tuple[str, str]) -> Candidate:
    """Return the candidate with one edit in whichever of its files has the text."""
    assert sum(change[0] in source.text for source in made.sources) == 1, change[0]
    sources = tuple(SourceFile(path=s.path, text=s.text.replace(*change)) for s in made.sources)
    return made.model_copy(update={"sources": sources})


def verdicts(family: str, position: int, mutants: dict[str, tuple[str, str]], store: Path) -> dict[str, str]:
    """Judge the kernel (`right`) and its mutants on one of the family's cases."""
    cases = cases_of(family)[position]
    made = candidate_of(family, cases)
    with judging(task_of(family, cases), store=store, device="cpu") as ask:
        found = {"right": ask(made, True).verdict}
        return found | {name: ask(mutant_of(made, change), True).verdict for name, change in mutants.items()}
