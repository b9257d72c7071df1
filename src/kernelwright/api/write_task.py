"""Description in words → a task file, written by a language model for a person to review.

Covers: answers that are not a task (asked once more with the complaint); money: the call is charged to its own run.
Does not cover: whether the file means what was intended. Every kernel is checked against it, so a person must read
it first, and it is not run here.
"""

import ast
from dataclasses import dataclass
from importlib.resources import files
from inspect import getdoc
from pathlib import Path

from ..errors import InputError, ModelError
from ..llm import Completion, Limits, Message, Models, Options, check_models
from ..propose.llm._asking import ask
from ..propose.llm._replies import ReplyError, read_code
from ..records import Budget, Reference, RunStatus, SourceFile, Task
from ..search import ended_in_words
from ..store import Store

_IMPORTED = frozenset({"torch", "math", "kernelwright"})
_OUTSIDE = frozenset(
    {"open", "exec", "eval", "compile", "input", "__import__", "torch.load", "torch.save", "torch.hub"}
)
"""Names that reach files, other code or people; a task computes its result from its arguments only."""
_OF_THE_JUDGE = frozenset({"contract", "hidden", "confirm", "fixed", "regimes"})
"""Arguments of `@kw.task` that can weaken its checks; only a person may add them."""
_BODY = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True)
class Written:
    """A task file written by a model."""

    text: str
    """The file's text."""
    name: str
    """Name of the task's function."""
    run: str
    """The run to which its calls are charged."""
    usd: float
    """Their cost."""


def write_task(words: str, *, options: Options, usd: float | None, store: Path) -> Written:
    """Ask the first of the options' models for a task that matches the description.

    Raises:
        ModelError: the model does not answer, no money is left, or no answer was a task.
        InputError: there are no words, or the model's name, price or cap is missing.
        MissingToolError: its SDK or key is missing.
    """
    if not options.get("models"):
        raise InputError("no model was named to write the task; name one with --model PROVIDER:MODEL")
    if not words.strip():
        raise InputError("there are no words; say what is to be computed, on which sizes and dtypes")
    check_models(options, usd)
    said = SourceFile(path="words.md", text=words)
    reference = Reference(files=(said,), entry="words.md:words", style="function")
    asked = Task(name="from words", form="own", reference=reference, workloads=())
    with Store(store) as kept:
        run = kept.create_run(
            asked, device="none", budget=Budget(usd=usd), seed=0, options={**options, "words": True}
        )
        with ended_in_words(kept, run):
            with Models.of_run(store, run.id) as models:
                limits = Limits(output_tokens=int(str(options.get("output_tokens") or Limits.output_tokens)))
                answered = ask(
                    models.get(), _messages(words), _read, schema=None, limits=limits, purpose="task from words"
                )  # fmt: skip
            kept.finish_run(run.id, RunStatus.FINISHED)
    if answered.value is None:
        raise ModelError(
            f"no answer was a task: {answered.complaint}; say more exactly what is to be computed"
        )
    return Written(answered.value, task_in(answered.value), run.id, answered.usd)


def task_in(text: str) -> str:
    """Return the name of the only function decorated with `@kw.task`, without running anything.

    Raises:
        ReplyError: the text is not a module of functions and constants with one task; the message says what to change.

    Example:
        >>> task_in('@kw.task(x="float32[n]", workloads=[{"n": 9}])\\ndef f(x): return x + 1')
        'f'
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ReplyError(f"the file is not Python: {error}") from None
    for node in module.body:
        if not isinstance(node, _BODY) and not _is_docstring(node):
            raise ReplyError(f"line {node.lineno} is no import, function or constant; leave it out")
        foreign = _modules(node) - _IMPORTED
        if foreign:
            raise ReplyError(f"the file imports {', '.join(sorted(foreign))}; use torch and math alone")
    said = {ast.unparse(n) for n in ast.walk(module) if isinstance(n, ast.Name | ast.Attribute)}
    if outside := sorted(said & _OUTSIDE):
        raise ReplyError(f"the file uses {', '.join(outside)}; compute from the arguments alone")
    marks = [(n.name, mark) for n in module.body if isinstance(n, ast.FunctionDef) for mark in _marks(n)]
    if len(marks) != 1:
        raise ReplyError(f"the file has {len(marks)} functions under @kw.task(...); write exactly one")
    ((name, mark),) = marks
    weaker = _OF_THE_JUDGE.intersection(str(word.arg) for word in mark.keywords)
    if weaker:
        raise ReplyError(
            f"@kw.task is given {', '.join(sorted(weaker))}; declare arguments and workloads alone"
        )
    return name


def _read(completion: Completion) -> str:
    draft = read_code(completion.text, cut_off=completion.stop == "length")
    text = max((block.text for block in draft.blocks), key=len, default="")
    task_in(text)
    return text


def _messages(words: str) -> list[Message]:
    from ..tasks.forms import own

    rules = files("kernelwright.api").joinpath("write_task.md").read_text(encoding="utf-8")
    form = f"{getdoc(own)}\n\n{getdoc(own.task)}"
    return [Message("system", rules.replace("{form}", form), stable=True), Message("user", words)]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _marks(function: ast.FunctionDef) -> list[ast.Call]:
    names = {"kw.task", "kernelwright.task"}
    calls = [d for d in function.decorator_list if isinstance(d, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in names]


def _modules(node: ast.stmt) -> set[str]:
    """Return the packages that a statement imports, anywhere in it."""
    names = [a.name for n in ast.walk(node) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module or "" for n in ast.walk(node) if isinstance(n, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}
