"""`kernelwright describe`: a task as described to the writer of a kernel."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ._common import Common, Taken, print_json

if TYPE_CHECKING:
    from ..records import ScalarSpec, Task, TensorSpec


def describe(
    task: str,
    *,
    device: str | None = None,
    verbose: bool = False,
    taken: Taken | None = None,
    common: Common | None = None,
) -> int:
    """Describe a task: its reference, search workloads and contract, and the languages to write it in.

    Args:
        task: The task, as for `optimize`.
        device: `cpu`, `cuda` or `cuda:N`. By default the first GPU, else the CPU.
        verbose: Show all terms of the contract, including defaults and empty ones.
        taken: How the task is loaded.
        common: Flags of every command.
    """
    from ..devices import detect
    from ..search import usable_languages
    from ..tasks import description_of

    common = common or Common()
    loaded, used = (taken or Taken()).task(task), detect(device)
    languages = usable_languages((), used)
    if common.json:
        print_json(
            "result", **description_of(loaded, verbose=verbose), device=used.name, languages=list(languages)
        )
        return 0
    print(f"{'task':11} {loaded.name} ({loaded.reference.entry}, a {loaded.reference.style})")
    print(f"{'device':11} {used.name}, for kernels in {', '.join(languages)}")
    for name, value in _facts(loaded, verbose=verbose):
        print(f"{name:11} {value}")
    for kind, files in (("reference", loaded.reference.files), ("start", loaded.start)):
        for file in files:
            print(f"\n--- {kind}: {file.path}\n{file.text}")
    return 0


def _facts(task: "Task", *, verbose: bool) -> "Iterator[tuple[str, str]]":
    """Yield the facts about a task with their names: sizes, contract, notes."""
    from ..records import Split
    from ..tasks import description_of

    search = task.split(Split.SEARCH)
    for workload in search:
        told = {"takes": workload.arguments, "state": workload.state, "gives": workload.outputs}
        specs = [f"{name} {', '.join(map(_text, specs))}" for name, specs in told.items() if specs]
        yield "workload", f"{workload.name}: {'; '.join(specs)}"
    yield "hidden", f"{len(task.workloads) - len(search)} more workloads, which only the judge sees"
    contract = description_of(task, verbose=verbose)["contract"]
    assert isinstance(contract, dict), "a contract has terms"
    terms = ", ".join(f"{name}={value}" for name, value in contract.items() if value not in ([], False))
    yield "contract", terms if verbose else f"{terms}; else as by default"
    for note in task.notes:
        yield "note", note


def _text(spec: "TensorSpec | ScalarSpec") -> str:
    """Format one argument: name, type and shape, and any other declaration of its values."""
    told = spec.model_dump(mode="json", exclude_defaults=True)
    name, dtype, shape = (told.pop(field, "") for field in ("name", "dtype", "shape"))
    drawn = told.pop("distribution", None) or {}
    more = "".join(f" {field}={value}" for field, value in {**drawn, **told}.items())
    return f"{name} {dtype or 'scalar'}{shape or ''}{more}"
