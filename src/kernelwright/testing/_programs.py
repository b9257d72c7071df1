"""Random torch programs as readable source, for property tests of code that reads or rewrites graphs."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch

from ._program_layers import recurrent_layer
from ._program_steps import STEPS, Step, Value, Writer

_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 19, 31, 33, 64, 65)
_DTYPES = ("float32",) * 6 + ("bfloat16", "bfloat16", "float16", "float16", "int64", "int64", "bool")
_MOST_ELEMENTS = 20_000
_MOST_MAGNITUDE = {"float16": 200.0, "bfloat16": 1e3, "float32": 1e4, "float64": 1e4, "int64": 1e6}
_NAME = re.compile(r"\b[vx]\d+\b")
_TRIES = 12


@dataclass(frozen=True)
class RandomProgram:
    """A torch function and the inputs to call it on.

    `str(program)` is a module to paste into a file: `inputs()` and `program(x0, ...)`.

    Example:
        >>> print(random_program(3, steps=2))  # doctest: +ELLIPSIS
        import torch
        ...
        def program(...
    """

    seed: int
    """The same seed gives the same program and the same values."""
    inputs_: tuple[str, ...]
    """An expression for each input; `g` is a generator under the seed."""
    lines: tuple[tuple[str, str], ...]
    """Name and expression of each step, in order."""
    returns: tuple[str, ...]
    """Names of the results."""

    def __str__(self) -> str:
        made = "".join(f"        {text},\n" for text in self.inputs_)
        body = "".join(f"    {name} = {text}\n" for name, text in self.lines)
        names = ", ".join(f"x{i}" for i in range(len(self.inputs_)))
        return (
            "import torch\nfrom torch.nn import functional as F\n\n\n"
            f"def inputs():\n    g = torch.Generator().manual_seed({self.seed})\n    return [\n{made}    ]\n\n\n"
            f"def program({names}):\n{body}    return {', '.join(self.returns)}\n"
        )

    def inputs(self) -> list[torch.Tensor]:
        """Make the inputs; some are not contiguous."""
        return cast(list[torch.Tensor], self._scope()["inputs"]())

    @property
    def function(self) -> Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]:
        """The function itself."""
        return cast(Callable[..., torch.Tensor | tuple[torch.Tensor, ...]], self._scope()["program"])

    def prefixes(self) -> list["RandomProgram"]:
        """Return the programs that end with each step, shortest first, without dead lines.

        The first that fails is the smallest reproduction.
        """
        return [
            replace(self, lines=self.lines[:i], returns=(name,)).needed()
            for i, (name, _) in enumerate(self.lines, 1)
        ]

    def needed(self) -> "RandomProgram":
        """Return the program without dead lines."""
        wanted, kept = set(self.returns), []
        for name, text in reversed(self.lines):
            if name in wanted:
                kept.append((name, text))
                wanted.update(_NAME.findall(text))
        return replace(self, lines=tuple(reversed(kept)))

    def _scope(self) -> dict[str, Callable[..., object]]:
        scope: dict[str, Callable[..., object]] = {}
        exec(compile(str(self), f"<random program {self.seed}>", "exec"), scope)
        return scope


def random_program(
    seed: int, *, steps: int = 8, dtypes: tuple[str, ...] = _DTYPES, recurrent: bool = False
) -> RandomProgram:
    """Write a random program: elementwise steps that broadcast, views, reductions, scans, gathers, scatters, products.

    Covers: sizes of one and odd sizes, float32, bfloat16, float16, int64 and bool, inputs that are views.
    Discontinuous operations (comparisons, rounding, positions of extremes) only read values without
    rounding error, so that an honest computation in another precision gives the same result; magnitudes stay
    small enough for the type.
    Does not cover: random numbers, in-place changes, control flow.

    Args:
        seed: Determines everything.
        steps: Lines to write, at most.
        dtypes: Dtypes of inputs; a name may be repeated.
        recurrent: Begin with a recurrent layer (float32), and continue from its result.
    """
    chance = random.Random(seed)
    writer = Writer(chance)
    generator = torch.Generator().manual_seed(seed)
    texts, layer = recurrent_layer(chance) if recurrent else (_inputs(chance, dtypes), "")
    for i, text in enumerate(texts):
        tensor = eval(text, {"torch": torch, "g": generator})
        writer.values[f"x{i}"] = Value(tensor, exact=True)
    if layer:
        _taken(writer, Step(lambda _: (layer, False), weight=1))
    weights = [step.weight for step in STEPS]
    for _ in range(steps):
        for _ in range(_TRIES):
            if _taken(writer, chance.choices(STEPS, weights)[0]):
                break
    lines = tuple(writer.lines)
    if not lines:
        return random_program(seed + 1_000_003, steps=steps, dtypes=dtypes, recurrent=recurrent)
    returns = [lines[-1][0]]
    if len(lines) > 2 and chance.random() < 0.25:
        returns.append(lines[chance.randrange(len(lines) - 1)][0])
    if layer and "v0" not in returns:
        returns.append("v0")
    return RandomProgram(seed, tuple(texts), lines, tuple(returns)).needed()


def _inputs(chance: random.Random, dtypes: tuple[str, ...]) -> list[str]:
    shape = _shape(chance)
    shapes = [shape, *(_related(chance, shape) for _ in range(chance.choice((0, 0, 1, 1, 2))))]
    return [_input(chance, its, dtypes) for its in shapes]


def _shape(chance: random.Random) -> list[int]:
    shape = [chance.choice(_SIZES) for _ in range(chance.choice((1, 2, 2, 2, 3, 3, 4)))]
    while len(shape) > 1 and torch.Size(shape).numel() > _MOST_ELEMENTS // 2:
        shape[chance.randrange(len(shape))] = chance.choice((1, 2, 3, 5))
    return shape


def _related(chance: random.Random, shape: list[int]) -> list[int]:
    """Make a shape compatible with another: the same, one that broadcasts, a matrix for its rows, or any."""
    match chance.randrange(6):
        case 0 | 1:
            return list(shape)
        case 2:
            return [1 if chance.random() < 0.5 else n for n in shape]
        case 3:
            return shape[chance.randrange(len(shape)) :]
        case 4:
            return [shape[-1], chance.choice(_SIZES)]
        case _:
            return _shape(chance)


def _input(chance: random.Random, shape: list[int], dtypes: tuple[str, ...]) -> str:
    dtype = chance.choice(dtypes)
    view = chance.choice(("", "", "", ".t()", "[..., ::2]")) if len(shape) == 2 else ""
    sizes = ", ".join(str(2 * n if view.startswith("[") and i else n) for i, n in enumerate(shape))
    match dtype:
        case "bool":
            text = f"torch.rand(({sizes},), generator=g) > 0.5"
            return f"({text}){view}" if view else text
        case "int64":
            return f"torch.randint(-9, 10, ({sizes},), generator=g){view}"
        case "float32":
            return f"torch.randn({sizes}, generator=g){view}"
        case _:
            return f"torch.randn({sizes}, generator=g).to(torch.{dtype}){view}"


def _taken(writer: Writer, step: Step) -> bool:
    """Try one step; it is kept if torch accepts it and the values stay bounded."""
    made = step.write(writer)
    if made is None:
        return False
    text, exact = made
    scope: dict[str, object] = {"torch": torch, "F": torch.nn.functional}
    scope |= {name: value.tensor for name, value in writer.values.items()}
    try:
        result = eval(text, scope)
    except (RuntimeError, IndexError, TypeError, ValueError):
        return False
    if not isinstance(result, torch.Tensor) or not _tame(result):
        return False
    name = f"v{len(writer.lines)}"
    writer.lines.append((name, text))
    writer.values[name] = Value(result, exact)
    return True


def _tame(result: torch.Tensor) -> bool:
    if result.numel() > _MOST_ELEMENTS or result.numel() == 0 or result.is_complex():
        return False
    if result.dtype is torch.bool:
        return True
    limit = _MOST_MAGNITUDE.get(str(result.dtype).removeprefix("torch."))
    return limit is not None and bool((result.double().abs() <= limit).all())
