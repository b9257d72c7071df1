"""`kernelwright craft`: assembly kernels for instruction sets that no model has seen."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError, MissingToolError
from ._asking import Asking
from ._common import Common, Count, print_json, table

if TYPE_CHECKING:
    from ..craft import Backend, Session

Action = Literal["tasks", "show", "manual", "run", "judge", "assemble", "trace", "measure", "serve"]
_MOST_FILE = 1 << 20


def craft(
    action: Action = "tasks",
    *what: str,
    isa: str = "tessera",
    seed: int = 0,
    turns: Count = 20,
    start: int = 0,
    count: Count = 40,
    to: Path | None = None,
    asking: Asking | None = None,
    common: Common | None = None,
) -> int:
    """Write and judge assembly programs for a tile accelerator, made-up instruction sets, or RISC-V with vectors.

    Costs are cycles of a model or counted instructions, never a time.

    Args:
        action: `tasks` lists them; `show TASK`; `manual` of the instruction set; `run TASK` lets a model write a
            program (without --model the known programs are tried); `judge TASK FILE` on hidden sizes; `assemble FILE`;
            `trace TASK FILE`; `measure TASK FILE`; `serve TASK` offers the tools over MCP on stdio.
        what: The task, and the file of the program.
        isa: Instruction set: `tessera`, `made-SEED`, or `riscv`.
        seed: Of inputs and hidden sizes.
        turns: Most answers of the model.
        start: First step of a trace.
        count: Steps of a trace.
        to: File for the best program of a run.
        asking: Which language model, and within which limits.
        common: Flags of every command.
    """
    from ..craft import find_backend

    asking, common = asking or Asking(), common or Common()
    backend = find_backend(isa)
    match action:
        case "tasks":
            return _tasks(common)
        case "manual":
            return _say(common, backend.manual(), isa=isa)
        case "show":
            return _show(backend, _words(action, what, "TASK")[0], common)
        case "assemble":
            return _say(common, backend.assemble(_program(_words(action, what, "FILE")[0])), isa=isa)
        case "run":
            return _run(_words(action, what, "TASK")[0], isa, (turns, seed, to), asking, common)
        case "serve":
            return _serve(_session(backend, _words(action, what, "TASK")[0], seed))
    task, file = _words(action, what, "TASK FILE")
    session = _session(backend, task, seed)
    session.text = _program(file)
    answer = {
        "judge": session.submit, "trace": lambda: session.trace(start, count), "measure": session.measure,
    }[action]()  # fmt: skip
    return _answer(common, answer)


def _session(backend: "Backend", task: str, seed: int) -> "Session":
    from ..craft import Session, find_task

    found = find_task(task)
    if missing := backend.missing():
        raise MissingToolError(missing)
    return Session(found, backend, seed=seed)


def _tasks(common: Common) -> int:
    from ..craft import TASKS

    if common.json:
        for task in TASKS.values():
            print_json("task", name=task.name, level=task.level, text=task.text, exact=task.exact)
        print_json("result", tasks=len(TASKS))
    else:
        table(
            [{"task": t.name, "level": str(t.level), "what": t.text} for t in TASKS.values()],
            empty="no tasks",
        )
    return 0


def _show(backend: "Backend", name: str, common: Common) -> int:
    from ..craft import find_task

    task = find_task(name)
    sizes: dict[str, Any] = {n: {"least": a, "most": b, "visible": c} for n, (a, b, c) in task.sizes.items()}
    baseline = next(iter(backend.programs(task).values()))
    if common.json:
        print_json(
            "result", name=task.name, level=task.level, text=task.text, sizes=sizes, exact=task.exact,
            contract=backend.contract(task), baseline=baseline,
        )  # fmt: skip
        return 0
    shown = "; ".join(
        f"{n} from {s['least']} to {s['most']}, visible {s['visible']}" for n, s in sizes.items()
    )
    print(
        f"{task.name}, level {task.level}: {task.text}\nsizes: {shown}\nat the start: {backend.contract(task)}"
    )
    print(f"the baseline:\n{baseline}", end="")
    return 0


def _run(task: str, isa: str, how: tuple[int, int, Path | None], asking: Asking, common: Common) -> int:
    from ..api.craft import run_craft

    turns, seed, to = how

    def on_call(name: str, answer: dict[str, Any]) -> None:
        if common.json:
            print_json("call", tool=name, ok=answer["ok"], message=answer["message"])
        else:
            print(f"{name}: {answer['message']}")

    run = run_craft(
        task,
        isa,
        turns=turns,
        seed=seed,
        options=asking.options,
        usd=asking.usd,
        store=common.folder,
        on_call=on_call,
    )
    if to is not None and run.text:
        to.write_text(run.text, encoding="utf-8")
    verdict = run.verdict
    message = verdict.message if verdict else "nothing right was submitted"
    if common.json:
        print_json(
            "result",
            message=message,
            score=verdict.score if verdict else None,
            turns=run.turns,
            program=run.text,
        )
    else:
        print(f"{task} on {isa}: {message}; {run.turns} turns")
    return 0 if verdict else 1


def _answer(common: Common, answer: dict[str, Any]) -> int:
    if common.json:
        print_json("result", **answer)
    else:
        print(answer["message"])
        for row in (*answer.get("lines", ()), *answer.get("steps", ())):
            print("  " + ", ".join(f"{name} {value}" for name, value in row.items() if value != ""))
    return 0 if answer["ok"] else 1


def _serve(session: "Session") -> int:
    try:
        from ..server.craft import make_craft_server
    except ModuleNotFoundError as error:
        raise MissingToolError(f"no package {error.name!r} here; pip install 'kernelwright[mcp]'") from error
    make_craft_server(session).run("stdio")
    return 0


def _say(common: Common, text: str, **data: str) -> int:
    if common.json:
        print_json("result", text=text, **data)
    else:
        print(text.rstrip())
    return 0


def _words(action: str, what: tuple[str, ...], expected: str) -> tuple[str, ...]:
    if len(what) != len(expected.split()):
        raise InputError(f"craft {action} was given {' '.join(what)!r}; expected {expected}")
    return what


def _program(file: str) -> str:
    path = Path(file)
    try:
        if path.stat().st_size > _MOST_FILE:
            raise InputError(f"{file!r} has {path.stat().st_size} bytes; expected at most {_MOST_FILE}")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file!r} cannot be read ({error}); expected a text file with a program") from None
