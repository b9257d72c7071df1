"""Row and seed → the text of a task: sizes are drawn, so that no text with its values can have been seen before."""

import inspect
import random
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Size = int | float | str | bool | tuple[int, ...]
"""A value as it is; or the ends of a range, both included, and if it is given the step: `(32, 96)`, `(32, 96, 16)`."""
_HEADER = """import math

import torch
import torch.nn.functional as F
from torch import Tensor

import kernelwright as kw
"""


@dataclass(frozen=True)
class Row:
    """One problem of a suite, before its sizes are drawn."""

    name: str
    """The problem's name in its group, and that of the task's function."""
    group: str
    """What kind of problem it is."""
    code: str | Callable[..., Any]
    """What is right: a function, whose text is taken, or the text itself."""
    arguments: Mapping[str, str]
    """Declarations of `@kw.task`, by argument."""
    sizes: Mapping[str, Size]
    """Axes, dtypes and scalars of a workload."""
    description: str = ""
    """What to know about it; the function's docstring if there is none."""
    fixed: tuple[str, ...] = ()
    """Axes that no other workload changes."""
    regimes: tuple[str, ...] | None = None
    """Value regimes that may be applied; all that the reference takes if none are named."""
    contract: Mapping[str, object] = field(default_factory=dict)
    """Fields of the contract that are not the default."""
    backward: bool = False
    """Whether the task is forward and backward together."""
    workloads: int = 1
    """How many search workloads are drawn."""
    held_out: int = 0
    """How many sizes are drawn for confirmation alone; derived from the declared ones if none."""

    @property
    def summary(self) -> str:
        """What to know about it, in one paragraph."""
        told = self.description or (inspect.getdoc(self.code) if callable(self.code) else "") or self.name
        return " ".join(told.split())


def task_text(row: Row, seed: int, suite: str) -> str:
    """Return the file of a row's task: the function under `@kw.task`, with sizes drawn by the seed.

    Example:
        >>> row = Row("twice", "demo", "def twice(x):\\n    return x * 2", {"x": "float32[n]"}, {"n": (8, 16)})
        >>> task_text(row, 1, "demo") == task_text(row, 1, "demo") != task_text(row, 2, "demo")
        True
    """
    drawn = _draws(row, random.Random(f"{seed}/{suite}/{row.group}/{row.name}"))
    options = [f"{name}={declared!r}" for name, declared in row.arguments.items()]
    options.append(f"workloads={drawn[: row.workloads]!r}")
    if row.held_out:
        options.append(f"confirm={drawn[row.workloads :]!r}")
    if row.fixed:
        options.append(f"fixed={row.fixed!r}")
    if row.regimes is not None:
        options.append(f"regimes={row.regimes!r}")
    if row.contract:
        options.append(f"contract=kw.Contract({', '.join(f'{k}={v!r}' for k, v in row.contract.items())})")
    if row.backward:
        options.append("backward=True")
    body = "".join(f"    {option},\n" for option in options)
    description = "\n".join(textwrap.wrap(row.summary, 110))
    return f'"""{description}"""\n\n{_HEADER}\n\n@kw.task(\n{body})\n{_code(row)}\n'


def _draws(row: Row, source: random.Random) -> list[dict[str, int | float | str | bool]]:
    """Draw sizes, no two alike where a range allows it."""
    found: list[dict[str, int | float | str | bool]] = []
    for _ in range(row.workloads + row.held_out):
        for _ in range(20):
            sizes = {name: _drawn(size, source) for name, size in row.sizes.items()}
            if sizes not in found:
                break
        found.append(sizes)
    return found


def _drawn(size: Size, source: random.Random) -> int | float | str | bool:
    if not isinstance(size, tuple):
        return size
    low, high, step = (*size, 1)[:3]
    return source.randrange(low, high + 1, step)


def _code(row: Row) -> str:
    """Return the function's text under the row's name, without decorators and docstring."""
    text = row.code if isinstance(row.code, str) else textwrap.dedent(inspect.getsource(row.code))
    head, _, rest = text.partition("(")
    text = f"def {row.name}({rest}"
    if callable(row.code) and row.code.__doc__:
        before, quotes, after = text.partition('"""')
        text = before.rstrip() + "\n" + after.partition('"""')[2].lstrip("\n") if quotes else text
    assert head.split()[-2:-1] == ["def"], f"{row.name}: expected a plain function"
    return text.rstrip()
