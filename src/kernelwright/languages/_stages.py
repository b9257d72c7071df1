"""Sources with several kernels: which run, on which buffers, in which order. OpenCL and WGSL share these lines.

// arguments: x, out                         the call's arguments by name, outputs last
// launch: rows = x.shape[0]                 for every kernel
// temporary: total = float32[rows]          a buffer between kernels, with that many elements
// kernel: sums(x, total)                    the first kernel; its launch lines follow
// launch: global = rows
// kernel: divide(x, total, out)
// launch: global = (rows, x.shape[1])
"""

import re
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ._launch import Geometry, Launch, View

_KERNEL = re.compile(r"^\s*//\s*kernel:\s*(.+?)\s*$", re.MULTILINE)
_CALL = re.compile(r"(\w+)\s*\(([\w\s,]*)\)")
_ARGUMENTS = re.compile(r"^\s*//\s*arguments:\s*(.*?)\s*$", re.MULTILINE)
_TEMPORARY = re.compile(r"^\s*//\s*temporary:\s*(\w+)\s*=\s*(\w+)\[(.+)\]\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Stage:
    """One kernel of the source."""

    kernel: str
    """Its symbol."""
    arguments: tuple[str, ...]
    """What it is passed, by name."""
    launch: Launch
    """Its launch lines, including those for every kernel."""


class Stages:
    """The kernels of a source that has `// kernel:` lines, in order; empty if it has none.

    Example:
        >>> found = Stages("// arguments: x, y\\n// kernel: copy(x, y)\\n// launch: global = prod(x.shape)\\n")
        >>> found.arguments, [stage.kernel for stage in found.stages]
        (('x', 'y'), ['copy'])
    """

    def __init__(self, source: str) -> None:
        shared, *rest = _KERNEL.split(source)
        match = _ARGUMENTS.search(source)
        self.arguments = _names(match[1]) if match else ()
        """The call's arguments by name; empty if the source does not list them."""
        self.temporaries = {name: (dtype, text) for name, dtype, text in _TEMPORARY.findall(source)}
        """Dtype and number of elements, an expression, by name."""
        lines = [f"// launch: {name}_elements = {text}" for name, (_, text) in self.temporaries.items()]
        self._sizes = Launch("\n".join([shared, *lines, "// launch: global = 1"]))
        self.stages = tuple(
            _stage(call, shared + text) for call, text in zip(rest[::2], rest[1::2], strict=True)
        )
        known = {*self.arguments, *self.temporaries}
        for stage in self.stages:
            for name in stage.arguments:
                if name not in known and name not in stage.launch.names:
                    raise InputError(
                        f"kernel {stage.kernel!r} is passed {name!r}, which no line makes; expected one of "
                        + ", ".join(sorted(known))
                    )

    def views(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Return arguments and temporaries as views, and the elements of each temporary.

        Args:
            arguments: `View`s and scalars by name.
        """
        found = self._sizes.geometry(arguments).derived
        sizes = {name: found[f"{name}_elements"] for name in self.temporaries}
        made = {name: View((sizes[name],), dtype) for name, (dtype, _) in self.temporaries.items()}
        return arguments | made, sizes

    def geometries(self, arguments: dict[str, Any]) -> list[Geometry]:
        """Evaluate every launch for arguments given by name."""
        views, _ = self.views(arguments)
        return [stage.launch.geometry(views) for stage in self.stages]


def _stage(call: str, text: str) -> Stage:
    found = _CALL.fullmatch(call)
    if found is None:
        raise InputError(f"kernel line {call!r} is not right; expected `// kernel: name(x, out)`")
    return Stage(found[1], _names(found[2]), Launch(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
