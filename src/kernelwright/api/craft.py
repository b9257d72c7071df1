"""Task, instruction set, model → the best program: the loop of `kernelwright.craft` with a model of a run."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..craft import Session, find_backend, find_task
from ..craft.known import KnownPrograms
from ..craft.loop import CraftRun, improve
from ..craft.session import Answer
from ..errors import MissingToolError
from ..llm import Limits, Message, Models, Options, check_models
from ..records import Budget, Reference, RunStatus, SourceFile, Task
from ..search import ended_in_words
from ..store import Store


def run_craft(
    name: str,
    isa: str,
    *,
    turns: int = 20,
    seed: int = 0,
    options: Options,
    usd: float | None = None,
    store: Path,
    on_call: Callable[[str, Answer], None] | None = None,
) -> CraftRun:
    """Let a model write a program for a craft task, or, where none is named, try the known programs.

    Args:
        name: The task.
        isa: The instruction set.
        turns: Most answers of the model.
        seed: Of the workloads.
        options: `models` and what belongs to them.
        usd: Most money to spend.
        store: Folder of the run store, to which a model's calls are charged.
        on_call: Called with each call of a tool and its answer.

    Raises:
        NotFoundError: there is no such task.
        InputError: there is no such instruction set, or the model's name, price or cap is missing.
        MissingToolError: what runs the instruction set is not here.
        ModelError: the model does not answer, or no money is left.
    """
    task, backend = find_task(name), find_backend(isa)
    if missing := backend.missing():
        raise MissingToolError(missing)
    session = Session(task, backend, seed=seed)
    if not options.get("models"):
        return improve(session, KnownPrograms(task, backend), turns=turns, on_call=on_call)
    check_models(options, usd)
    said = SourceFile(path="task.md", text=task.text)
    asked = Task(
        name=f"craft {name} on {isa}", form="own", workloads=(),
        reference=Reference(files=(said,), entry="task.md:task", style="function"),
    )  # fmt: skip
    with Store(store) as kept:
        run = kept.create_run(
            asked, device="none", budget=Budget(usd=usd), seed=seed, options={**options, "words": True}
        )
        with ended_in_words(kept, run):
            with Models.of_run(store, run.id) as models:
                model = models.get()
                limits = Limits(output_tokens=int(str(options.get("output_tokens") or Limits.output_tokens)))

                def asks(messages: Sequence[Message]) -> str:
                    return model.complete(messages, limits=limits, purpose=f"craft turn {len(messages)}").text

                found = improve(session, asks, turns=turns, on_call=on_call)
            kept.finish_run(run.id, RunStatus.FINISHED)
    return found
