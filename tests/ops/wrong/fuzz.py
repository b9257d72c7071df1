"""Wrong calls: a legal one with an argument or two exchanged, and what may come of it.

An exchanged argument is wrong by its kind, and must be refused; or by its value, shape or dtype, and must be refused if
the reference cannot compute it. A refusal is one line that names an argument, what was given and what was expected.
What is not refused must be what the reference gives; of infinite numbers, and of those whose squares are, only in shape
and dtype: there the judge knows what is right.
"""

import functools
import inspect
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
from tests.ops.wrong.legal import LEGAL, Call

from kernelwright import ops
from kernelwright.errors import ArgumentError
from kernelwright.ops._core import unremembered

REFUSAL = re.compile(r"[A-Za-z_]+(\.[A-Za-z_0-9]+)*: (?P<argument>.+?) (is|are) .+; expected .+")
OBJECTS: tuple[Any, ...] = (
    None,
    "x",
    "",
    1.5,
    3,
    b"x",
    [1, 2],
    {},
    object(),
    1j,
    len,
    torch,
    int,
    [None],
    (1, "x"),
)
"""What has no business in most arguments."""
CSR = ("crow", "col", "values")
"""Parts of a sparse argument, by torch's names."""
_ROUNDING = 2e-2
"""Of the largest number of a result: how far a kernel may be from the reference, in 16 bits too."""
_TAME = 1e15
HUGE = 1 << 62
NUMBERS: tuple[Any, ...] = (
    -1, 0, 1, 2, 7, -HUGE, HUGE, 1 << 64, 10**30, float("nan"), float("inf"), -float("inf"), -0.5, 1e-300, True,
)  # fmt: skip
DTYPES = (
    torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
    torch.complex64, torch.float8_e4m3fn,
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A wrong call that did not end as it should."""

    call: str
    problem: str


def tensors(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """Return another tensor than x: of another shape, dtype, layout or device, or with other values."""
    if x.layout is not torch.strided:
        changed = [
            lambda: x.to_dense(), lambda: x.to_dense().to_sparse(), lambda: x.to(draw.choice(DTYPES[:4])),
            lambda: x.to_dense()[1:].to_sparse_csr(), lambda: x.to_dense()[:, :0].to_sparse_csr(), lambda: broken(x),
        ]  # fmt: skip
        return draw.choice(changed)()
    axis = draw.randrange(x.dim()) if x.dim() else 0
    shapes = [lambda: x[None], lambda: x.new_zeros(()), lambda: x.new_zeros(0), lambda: x.flatten()]
    if x.dim():
        shapes += [
            lambda: x.narrow(axis, 0, 0), lambda: torch.cat((x, x), axis),
            lambda: x.narrow(axis, 0, x.shape[axis] // 2), lambda: x.sum(axis), lambda: x[0:1],
            lambda: torch.cat((x, x.narrow(axis, 0, min(1, x.shape[axis]))), axis), lambda: x.transpose(0, -1),
        ]  # fmt: skip
    others = [
        lambda: x.to(draw.choice(DTYPES)), lambda: x.to("meta"), lambda: x.to_sparse(), lambda: valued(x, draw),
        lambda: valued(x, draw), lambda: valued(x, draw), lambda: torch.empty(0), lambda: x.expand(0, *x.shape),
    ]  # fmt: skip
    return draw.choice(draw.choice((shapes, others)))()


def broken(x: torch.Tensor) -> torch.Tensor:
    """Return a sparse matrix whose indices are none."""
    crow, col = x.crow_indices().clone(), x.col_indices().clone()
    place = crow if len(x.values()) == 0 or torch.rand(()) < 0.5 else col
    place[torch.randint(len(place), ())] = int(torch.randint(-3, 99, ()))
    return torch.sparse_csr_tensor(crow, col, x.values(), x.shape, check_invariants=False)


def valued(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """Return x with values of its dtype's edges, all over or somewhere."""
    if x.dtype is torch.bool:
        return ~x
    edges = (
        (float("nan"), float("inf"), -1.0, 0.0, 1e30)
        if x.is_floating_point()
        else (-1, -5, 99, torch.iinfo(x.dtype).max, torch.iinfo(x.dtype).min, 0)
    )
    edges = tuple(e for e in edges if x.dtype is not torch.float16 or abs(e) != 1e30)
    changed = x.clone()
    edge = draw.choice([e for e in edges if x.dtype is not torch.uint8 or e >= 0])
    if not x.numel() or draw.random() < 0.5:
        return torch.full_like(x, edge)
    changed.view(-1)[draw.randrange(x.numel())] = edge
    return changed


def exchanged(given: Any, draw: random.Random) -> Any:
    """Return something else for an argument."""
    if draw.random() < 0.3:
        return draw.choice(OBJECTS)
    if isinstance(given, torch.Tensor):
        return tensors(given, draw)
    if isinstance(given, bool):
        return draw.choice((not given, "yes", 2, None))
    if isinstance(given, int | float):
        return draw.choice(NUMBERS)
    if isinstance(given, str):
        return draw.choice(("", given.upper(), given + "x", None, 3))
    if isinstance(given, list | tuple) and given:
        at = draw.randrange(len(given))
        changed = [exchanged(one, draw) if i == at else one for i, one in enumerate(given)]
        return type(given)(draw.choice((changed, list(given[:-1]), [*given, given[0]], [])))
    return draw.choice(OBJECTS + NUMBERS)


@functools.cache
def every_op() -> tuple[ops.Op, ...]:
    """Return the ops of all families."""
    return tuple(op for name in ops.families() for op in ops.ops_of(ops.family(name)))


@contextmanager
def references() -> Iterator[None]:
    """Let no kernel serve a call."""
    kept = [(op, op.serves) for op in every_op()]
    for op, _ in kept:
        op.serves = lambda *_: "the reference is asked for"
    try:
        with unremembered():
            yield
    finally:
        for op, serves in kept:
            op.serves = serves


def outcome(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Return what a call gave, or raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(**copied(arguments)), None
        except Exception as error:  # noqa: BLE001  # any that a user would see
            return None, error


def copied(arguments: Any) -> Any:
    """Return arguments that a call in place may write to."""
    if isinstance(arguments, torch.Tensor):
        return arguments.detach().clone().requires_grad_(arguments.requires_grad)
    if type(arguments) in (list, tuple):
        return type(arguments)(copied(one) for one in arguments)
    if type(arguments) is dict:
        return {name: copied(one) for name, one in arguments.items()}
    return arguments


def shapes(found: Any) -> Any:
    """Return what must be the same of results of kernels and references."""
    if isinstance(found, torch.Tensor):
        return tuple(found.shape), found.dtype, found.layout
    return tuple(map(shapes, found)) if isinstance(found, tuple) else type(found)


def tame(arguments: Any) -> bool:
    """Tell whether all numbers are such that a kernel's answer must be the reference's: finite, squares included."""
    if type(arguments) in (list, tuple):
        return all(map(tame, arguments))
    if not isinstance(arguments, torch.Tensor):
        return not isinstance(arguments, float) or abs(arguments) < _TAME
    if arguments.is_meta or not arguments.is_floating_point():
        return True
    values = arguments.detach().to_dense() if arguments.layout is not torch.strided else arguments.detach()
    return bool((values.float().abs() < _TAME).all())


def alike(found: Any, other: Any) -> bool:
    """Tell whether results of a kernel and a reference are the same but for rounding."""
    if isinstance(found, tuple):
        return all(map(alike, found, other))
    if not isinstance(found, torch.Tensor) or found.is_meta:
        return True
    if found.layout is not torch.strided:
        found, other = found.to_dense(), other.to_dense()
    if not found.is_floating_point():
        return torch.equal(found, other)
    found, other = found.detach().double(), other.detach().double()
    finite = other.isfinite()
    most = float(other[finite].abs().max()) if finite.any() else 0.0
    return torch.allclose(found, other, rtol=_ROUNDING, atol=_ROUNDING * most, equal_nan=True)


def judged(function: Callable[..., Any], arguments: dict[str, Any]) -> tuple[str, str]:
    """Make a call; return `refused`, `legal` or `bad`, and what is bad."""
    found, error = outcome(function, arguments)
    with references():
        other, refused = outcome(function, arguments)
    if error is None and refused is None:
        if shapes(found) != shapes(other):
            return "bad", f"{shapes(found)}, and the reference gives {shapes(other)}"
        if tame(list(arguments.values())) and not alike(found, other):
            return "bad", f"another answer: {found}, and the reference gives {other}".replace("\n", " ")
        return "legal", ""
    for one, which in ((error, "kernel"), (refused, "reference")):
        problem = unclear(one, {*arguments, *inspect.signature(function).parameters, *CSR})
        if problem:
            return "bad", f"{which}: {problem}; the other: {error if one is refused else refused}"
    return "refused", ""


def unclear(error: BaseException | None, named: set[str]) -> str:
    """Return what is not clear about an error; nothing if it names an argument, the given and the expected."""
    if error is None:
        return "ran"
    match = REFUSAL.fullmatch(str(error))
    if not match or not isinstance(error, ArgumentError | IndexError | ValueError):
        return f"{type(error).__name__}: {error}"
    said = {singular(word) for word in re.findall(r"\w+", match["argument"])}
    return "" if said & set(map(singular, named)) else f"names no argument: {error}"


def singular(name: str) -> str:
    """Return what `betas`, `beta1` and `beta` have in common."""
    return re.sub(r"\d?s?$", "", name)


def told(arguments: dict[str, Any]) -> str:
    """Describe arguments in a line."""
    return ", ".join(f"{name}={word(one)}" for name, one in arguments.items())


def word(one: Any) -> str:
    if isinstance(one, torch.Tensor):
        where = "" if one.is_cpu else one.device
        return (
            f"{str(one.dtype)[6:]}{list(one.shape)}{'' if one.layout is torch.strided else one.layout}{where}"
        )
    return (
        f"[{', '.join(map(word, one))}]"
        if type(one) in (list, tuple)
        else repr(one)[:40]
        if isinstance(one, str | int | float | bool)
        else f"a {type(one).__name__}"
    )


def wrong_calls(family: str, seed: int) -> Iterator[Call]:
    """Yield calls of every public function of a family in turn, without end."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    made = LEGAL[family]()
    while True:
        for function, legal in made:
            function(
                **copied(legal)
            )  # remembered, so that a wrong one that looks like it is not checked again
            arguments = dict(legal)
            for name in draw.sample(list(arguments), min(len(arguments), draw.choice((1, 1, 1, 2)))):
                arguments[name] = exchanged(arguments[name], draw)
            yield function, arguments


def fuzzed(
    family: str, refused: int, seed: int = 0, trace: IO[str] | None = None
) -> tuple[dict[str, int], list[Finding]]:
    """Make wrong calls until each function of a family has refused so many; return how many, and what was found.

    Each call is written to the first line of `trace` before it is made, so that one that kills the process is known.
    """
    counts = {function.__name__: 0 for function, _ in LEGAL[family]()}
    findings: dict[str, Finding] = {}
    for function, arguments in wrong_calls(family, seed):
        if min(counts.values()) >= refused:
            break
        if counts[function.__name__] >= refused:
            continue
        said = f"{family}.{function.__name__}({told(arguments)})"
        if trace is not None:
            trace.seek(0)
            trace.write(f"{said}\n")
            trace.flush()
        result, problem = judged(function, arguments)
        if result == "bad":
            findings.setdefault(f"{function.__name__}: {problem[:70]}", Finding(said, problem))
        counts[function.__name__] += result != "legal"
    return counts, list(findings.values())


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, count, seed, file = sys.argv[1:]
    with Path(file).open("w") as calls:
        made, found = fuzzed(name, int(count), int(seed), calls)
    print(made, *(f"{one.call}\n    {one.problem}" for one in found), sep="\n")
    sys.exit(bool(found))
