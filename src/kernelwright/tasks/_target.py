"""Target → Task: files, functions, definitions and folders."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch

from ..errors import TaskError, known_names
from ..records import Contract, Task, Workload
from ..system.deadline import deadline
from .forms import definition, existing, kernelbench, own
from .forms._local_imports import local_imports
from .forms._source import read_text, run_source
from .inputs._draw import bytes_of

COPIES = 3
"""How many times a workload's tensors are in memory at once: inputs, a copy, the oracle's."""
_MOST_MINUTES = 3.0
_WORDS = (".md", ".txt")


Target = str | Path | Task | Callable[..., Any]
"""`file.py`, `file.py:symbol`, a definition's JSON file, a folder, a `Task`, or a function under `@kw.task`."""


def load_task(
    target: Target,
    *,
    max_elements: int | None = None,
    contract: Contract | None = None,
    kernel: str | None = None,
    fixed: tuple[str, ...] = (),
    backward: bool = False,
    minutes: float | None = None,
) -> Task:
    """Load a task from a file, a function in a file, a definition, or a folder; a `Task` is returned unchanged.

    Args:
        target: `file.py` (KernelBench form, or the `@kw.task` form if one function has it),
            `file.py:symbol`, `definition.json`, a folder with one of these, or a function under `@kw.task`.
        max_elements: most elements of inputs, parameters and outputs together; the KernelBench form's
            integer constants are shrunk to fit.
        contract: used instead of the task's own.
        kernel: path of an existing kernel to start from.
        fixed: axes, or constants of the KernelBench form, that no hidden or confirm workload may change.
        backward: make the task forward and backward together; same as `@kw.task(backward=True)`.
        minutes: how long it may take, which runs the reference a few times; 3 by default.

    Raises:
        TaskError: the target cannot be used; the message explains why and what to do.

    Example:
        >>> load_task("examples/swiglu.py").name
        'swiglu'
    """
    if isinstance(target, Task):
        return target
    if callable(target):
        target = f"{_file_of(target)}:{target.__name__}"
    path, _, symbol = _split(str(target))
    if path.is_dir():
        path, kernel = existing.inside(path, kernel)
    minutes = minutes or _MOST_MINUTES
    try:
        with deadline(minutes * 60), one_thread():
            task = _load(path, symbol, max_elements, contract, fixed, backward=backward)
    except TimeoutError:
        raise TaskError(
            f"{path} was not loaded within {minutes:g} minutes: its reference hangs, or takes too long a call; "
            "fix it, make its sizes smaller (--max-elements N), or allow more --minutes"
        ) from None
    if kernel is not None:
        task = existing.with_kernel(task, Path(kernel))
    _check_memory(task)
    return task


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict torch to the calling thread: a thread team starves on a busy machine, and spins after its work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _load(
    path: Path,
    symbol: str,
    max_elements: int | None,
    contract: Contract | None,
    fixed: tuple[str, ...],
    *,
    backward: bool,
) -> Task:
    _check_words(path)
    text = read_text(path)
    given = contract
    if backward:
        contract = (contract or Contract()).model_copy(update={"backward": True})
    if path.suffix == ".json":
        return definition.load(path, text, max_elements=max_elements, contract=contract, fixed=fixed)
    if path.suffix != ".py":
        raise TaskError(f"{str(path)!r} is no task; expected a .py or .json file, or a task's folder")
    module = run_source(text, str(path), local_imports(path, text))
    names = own.tasks_in(module)
    if symbol and symbol not in names and symbol != "Model":
        known = [*names, *(["Model"] if hasattr(module, "Model") else [])]
        raise TaskError(f"{path} has no task {symbol!r}; {known_names(symbol, known)}")
    if symbol in names or (not symbol and len(names) == 1):
        return own.load(
            path, text, symbol or names[0], max_elements=max_elements, contract=given, fixed=fixed, backward=backward
        )  # fmt: skip
    if not symbol and len(names) > 1:
        raise TaskError(
            f"{path} has {len(names)} tasks; name one: " + ", ".join(f"{path}:{n}" for n in names)
        )
    return kernelbench.load(path, text, max_elements=max_elements, contract=contract, fixed=fixed)


def _check_words(path: Path) -> None:
    """Raise a `TaskError` for a task in words: nothing is compared with a reference that nobody has read."""
    is_text = " " in path.name and not path.suffix and not path.exists()
    if is_text or path.suffix in _WORDS:
        raise TaskError(
            f"{str(path)!r} is said in words, and a task is code that somebody has read; let a model write it down "
            "(kernelwright task WORDS --to FILE.py --model NAME), read FILE.py, and pass that"
        )


def _split(target: str) -> tuple[Path, str, str]:
    head, colon, symbol = target.rpartition(":")
    if colon and head.endswith((".py", ".json")) and symbol:
        return Path(head), colon, symbol
    return Path(target), "", ""


def _file_of(function: Callable[..., Any]) -> str:
    file = inspect.getsourcefile(function)
    if file is None or not Path(file).is_file():
        raise TaskError(f"{function.__name__}() is not in a file; save it to a .py file and pass that")
    return file


def _check_memory(task: Task) -> None:
    largest = max(task.workloads, key=_bytes)
    needed, free = _bytes(largest) * COPIES, psutil.virtual_memory().available
    if needed > free:
        raise TaskError(
            f"{task.name}: workload {largest.name!r} needs about {needed / 1e9:.1f} GB and "
            f"{free / 1e9:.1f} GB are free; pass --max-elements (such as 4e6) or declare smaller sizes"
        )


def _bytes(workload: Workload) -> int:
    return bytes_of((*workload.arguments, *workload.state, *workload.outputs))
