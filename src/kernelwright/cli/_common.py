"""Flags that several commands share, and how they are checked."""

import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, Token
from cyclopts.validators import Number
from pydantic import JsonValue

from ..config import Settings
from ..errors import InputError

if TYPE_CHECKING:
    from ..flow import Options
    from ..records import Bound, Task
    from ..tasks import Target

Calls = Literal["custom-only", "library-allowed", "anything"]
"""What a candidate may call; see `Contract.calls`."""


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """Parse a whole number; cyclopts rounds 1.5 to 2."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"{tokens[0].value!r} is not a whole number") from None


Count = Annotated[int, Parameter(converter=_whole, validator=Number(gte=1))]
"""A whole number of at least one."""


def _elements(_: object, tokens: Sequence[Token]) -> int:
    """Parse a number of elements, which may be written as 4e6."""
    try:
        return int(float(tokens[0].value))
    except (ValueError, OverflowError):
        raise ValueError(f"{tokens[0].value!r} is not a number such as 4e6") from None


Elements = Annotated[int, Parameter(converter=_elements, validator=Number(gte=1))]
"""A number of elements of at least one."""

Positive = Annotated[float, Parameter(validator=Number(gt=0, lt=math.inf))]
"""A finite number above zero."""


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Flags of every command."""

    store: Path | None = None
    """Folder of the run store; by default KERNELWRIGHT_STORE, else the user's data directory."""
    json: bool = False
    """Print JSON: one line per event, the last line is the result."""

    @property
    def folder(self) -> Path:
        """The store's folder."""
        return self.store or Settings.from_environment().store

    @property
    def again(self) -> str:
        """Flags to add to the next command so that it uses the same store.

        Example:
            >>> Common(store=Path("my runs")).again, Common().again
            (" --store 'my runs'", '')
        """
        return f" --store {shlex.quote(str(self.store))}" if self.store else ""


@Parameter(name="*")
@dataclass(frozen=True)
class Taken:
    """How a task is loaded from its target."""

    max_elements: Elements | None = None
    """Shrink sizes until inputs, parameters and outputs together fit."""
    fixed: tuple[str, ...] = ()
    """Size that no hidden or confirm workload may change, an axis or a constant of the file; repeat for more."""
    kernel: Path | None = None
    """Existing kernel to start from and to beat; by default the one in the task's folder."""
    backward: bool = False
    """Take forward and backward together as one call, as `@kw.task(backward=True)` does."""
    numerics: Literal["strict", "native", "fast"] | None = None
    """How far a kernel may be off: `strict`, `native` (the default) or `fast`; see docs/acceptance/tolerance.md."""

    @property
    def options(self) -> "Options":
        """The options stored with the run, to reproduce its command; flags not given are left out."""
        given: Options = {"fixed": self.fixed, "kernel": str(self.kernel or "")}
        return {name: value for name, value in given.items() if value}

    def task(self, target: "Target", *, calls: Calls | None = None, minutes: float | None = None) -> "Task":
        """Return the task of a target, as set by the flags.

        Args:
            target: What the user points at, or a task that is already loaded.
            calls: What a candidate may call; None for the task's own setting.
            minutes: Most minutes that loading may take.

        Raises:
            InputError: `backward` is requested for a loaded task that is forward only.
        """
        from ..tasks import load_task

        task = load_task(
            target, max_elements=self.max_elements, kernel=None if self.kernel is None else str(self.kernel),
            fixed=self.fixed, backward=self.backward, minutes=minutes,
        )  # fmt: skip
        if self.backward and not task.contract.backward:
            raise InputError(
                f"task {task.name!r} of an earlier run is forward only; name its file with --backward"
            )
        contract = task.contract if self.numerics is None else task.contract.under(self.numerics)
        if calls is not None:
            contract = contract.model_copy(update={"calls": calls})
        return task if contract == task.contract else task.model_copy(update={"contract": contract})


def program() -> str:
    """Return how to call this program again: by name if it is on the path, else by its path."""
    called = Path(sys.argv[0])
    if called.stem != "kernelwright" or shutil.which("kernelwright"):
        return "kernelwright"
    return shlex.quote(os.path.relpath(called))


def print_json(event: str, **data: JsonValue) -> None:
    """Print one event as a line of JSON."""
    print(json.dumps({"event": event, **data}), flush=True)


def table(rows: Sequence[Mapping[str, str]], *, empty: str) -> None:
    """Print rows as a table on stdout: aligned on a terminal, tab-separated otherwise."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not rows:
        print(empty)
    elif console.is_terminal:
        drawn = Table(*rows[0], box=None, header_style="bold", pad_edge=False)
        for row in rows:
            drawn.add_row(*row.values())
        console.print(drawn)
    else:
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(row.values()))


def bounds_of(events: Sequence[Mapping[str, JsonValue]]) -> "list[Bound]":
    """Return the bounds from a run's log, the latest if it was resumed."""
    from ..records import Bound

    logged = [e["bounds"] for e in events if e["event"] == "bound"]
    bounds = logged[-1] if logged else []
    return [Bound.model_validate(b) for b in bounds] if isinstance(bounds, list) else []


def speedup_text(speedup: Mapping[str, float | None] | None) -> str:
    """Format a speedup with its limits.

    Example:
        >>> speedup_text({"median": 1.5, "low": 1.4, "high": 1.613})
        '1.50x (1.40 to 1.61)'
    """
    if not speedup:
        return "not timed"
    median, low, high = speedup["median"], speedup["low"], speedup["high"]
    limits = "no limits yet" if low is None or high is None else f"{low:.2f} to {high:.2f}"
    return f"{median:.2f}x ({limits})"


def time_text(time_us: float | None) -> str:
    """Format microseconds in a suitable unit.

    Example:
        >>> time_text(1234.5), time_text(12.34), time_text(None)
        ('1.23 ms', '12.3 us', 'not timed')
    """
    if not time_us:
        return "not timed"
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3g} s"
    return f"{time_us / 1e3:.3g} ms" if time_us >= 1e3 else f"{time_us:.3g} us"
