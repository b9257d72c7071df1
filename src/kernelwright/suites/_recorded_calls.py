"""Calls of aten operators as they are recorded, `((T([2, 3], f16), 1), {'alpha': 2})`, and problems made of them."""

import ast
import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Task
from ._modules import by_name, reference_text
from ._records import SuiteProblem
from ._structure import FLAT
from ._submission import Submission, submission_of

_DTYPES = {
    "bf16": "bfloat16", "f64": "float64", "f32": "float32", "f16": "float16", "c32": "complex32", "c64": "complex64",
    "c128": "complex128", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "b8": "bool", "u8": "uint8",
}  # fmt: skip
_RENAMED = {"aten.sum.SymInt": "aten.sum.dim_IntList"}
_FLOATS = frozenset({"bfloat16", "float16", "float32", "float64"})
_INDICES = frozenset({"int32", "int64"})
_LARGEST_CHOICE = 16
"""The greatest number among a call's arguments that is not taken for one of its sizes."""
_LOW, _HIGH = -9, 9
"""What `torch.testing.make_tensor` draws between if it is not told."""
_MODEL = """import torch


def outputs(result):
    if isinstance(result, (tuple, list)):
        return tuple(one for one in result if one is not None)
    return result


class Model(torch.nn.Module):
    def forward(self, PARAMETERS):
        return outputs(torch.ops.OPERATOR(ARGUMENTS))


CONSTANTS

def get_inputs():
    return [INPUTS]


def get_init_inputs():
    return []
"""
_FORM = f"""{FLAT}

def SYMBOL(*arguments, **named):
    return found_kernel(kw_flat((arguments, named)), {{}})
"""
_ENTRY = """import torch
from submission import SYMBOL


def run(PARAMETERS):
    result = SYMBOL(ARGUMENTS)
    return tuple(one for one in result if one is not None) if isinstance(result, (tuple, list)) else result
"""
_COUNTED = re.compile(r"^cnt: (\d+), (.*)$", re.MULTILINE)
_CALLED = re.compile(
    r"def forward\(self, (.*)\):\n        return outputs\(torch\.ops\.aten\.[\w.]+\((.*)\)\)\n"
)


@dataclass(frozen=True)
class Tensor:
    """One tensor of a call."""

    shape: tuple[int, ...]
    dtype: str
    """As torch calls it."""
    stride: tuple[int, ...] | None = None
    """None if it is contiguous."""
    low: float = _LOW
    """The least value that is drawn."""
    high: float = _HIGH
    """The greatest."""


@dataclass
class Call:
    """One call of an operator."""

    arguments: str = ""
    """The text between its brackets, with `x0`, `x1` in the places of tensors."""
    tensors: list[Tensor] = field(default_factory=list)
    """Its tensors, in order."""
    named: set[int] = field(default_factory=set)
    """Numbers in lists of its arguments: sizes of these values do not vary."""
    counts: set[int] = field(default_factory=set)
    """Further numbers among its arguments that are too large for an axis or a choice: sizes, or products of sizes."""

    @property
    def parameters(self) -> str:
        """The names of its tensors."""
        return ", ".join(f"x{i}" for i in range(len(self.tensors)))

    @property
    def elements(self) -> int:
        """How many elements its tensors have."""
        return sum(math.prod(t.shape) for t in self.tensors)


def parsed(text: str) -> Call:
    """Read a call as it is recorded.

    Raises:
        TaskError: it has something of which no argument can be made.

    Example:
        >>> call = parsed("((T([2, 3], f16), [3, 4]), {'dtype': f32})")
        >>> call.arguments, call.tensors[0].shape, call.named
        ('x0, [3, 4], dtype=torch.float32', (2, 3), {3, 4})
    """
    try:
        tree = ast.parse(text.strip().strip("'\""), mode="eval").body
    except SyntaxError:
        tree = None
    match tree:
        case ast.Tuple(elts=[ast.Tuple(elts=given), ast.Dict(keys=keys, values=values)]):
            call = Call()
            parts = [_said(node, call) for node in given]
            parts += [
                f"{ast.literal_eval(k)}={_said(v, call)}" for k, v in zip(keys, values, strict=True) if k
            ]
            call.arguments = ", ".join(parts)
            return call
    raise TaskError(f"{text[:80]!r} is no recorded call; expected ((arguments), {{named}})")


def calls_in(text: str) -> dict[str, Counter[str]]:
    """Return the calls that a recording has, by operator, and how often each was seen.

    Example:
        >>> calls_in("Operator: aten.relu.default\\ncnt: 2, ((T([4], f16),), {})\\n")
        {'aten.relu.default': Counter({'((T([4], f16),), {})': 2})}
    """
    seen: dict[str, Counter[str]] = {}
    for part in text.split("Operator: ")[1:]:
        name, _, lines = part.partition("\n")
        calls = seen.setdefault(now_called(name.strip()), Counter())
        for count, call in _COUNTED.findall(lines):
            calls[call.strip()] += int(count)
    return seen


def now_called(operator: str) -> str:
    """Return the name that torch has today for an operator of a recording.

    Example:
        >>> now_called("aten.sum.SymInt")
        'aten.sum.dim_IntList'
    """
    return _RENAMED.get(operator, operator)


def most_frequent(operator: str, recorded: Mapping[str, Counter[str]]) -> Call:
    """Return an operator's call that was seen most often.

    Raises:
        TaskError: none is recorded, or its values would have to be.
    """
    if "_embedding_bag" in operator:
        raise TaskError(f"{operator} takes offsets whose values are not recorded, and crashes on wrong ones")
    if not recorded.get(operator):
        raise TaskError(f"no call of {operator} is recorded")
    for text, _ in recorded[operator].most_common():
        if (call := parsed(text)).elements or not call.tensors:
            return call
    raise TaskError(f"no call of {operator} is recorded whose tensors have elements")


def _said(node: ast.expr, call: Call) -> str:
    """Return an argument's text, with what it has of tensors and sizes noted."""
    match node:
        case ast.Call(func=ast.Name(id="T"), args=[shape, ast.Name(id=dtype), *rest], keywords=keywords):
            stride = next((k.value for k in keywords if k.arg == "stride"), rest[0] if rest else None)
            sizes = tuple(ast.literal_eval(shape))
            strides = None if stride is None else tuple(ast.literal_eval(stride))
            call.tensors.append(Tensor(sizes, _DTYPES[dtype], strides))
            return f"x{len(call.tensors) - 1}"
        case ast.Call(func=ast.Name(id="device")) | ast.Constant(value="cuda"):
            return "'cpu'"
        case ast.Name(id=name) | ast.Constant(value=str(name)) if name in _DTYPES:
            return f"torch.{_DTYPES[name]}"
        case ast.Name(id="inf" | "nan" as name):
            return f"float('{name}')"
        case ast.Attribute(value=ast.Name(id="th" | "torch"), attr=name):
            return f"torch.{name}"
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            call.named |= {p.value for p in parts if isinstance(p, ast.Constant) and type(p.value) is int}
            return "[" + ", ".join(_said(part, call) for part in parts) + "]"
        case ast.Constant(value=value) if type(value) is int and value > _LARGEST_CHOICE:
            call.counts.add(value)
            return str(value)
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return ast.unparse(node)
    raise TaskError(f"no argument can be made of {ast.unparse(node)[:60]!r}")


def problem_of(operator: str, call: Call) -> str:
    """Return the file of a problem: an operator, called as it was recorded; sizes that may vary are constants.

    Example:
        >>> text = problem_of("aten.relu.default", parsed("((T([2], f32),), {})"))
        >>> [line.strip() for line in text.splitlines() if "size" in line or "relu" in line][:2]
        ['return outputs(torch.ops.aten.relu.default(x0))', 'size_2 = 2']
    """
    if not call.tensors:
        raise TaskError(f"{operator} is recorded without a tensor")
    indexed = any(t.dtype in _INDICES for t in call.tensors) and len(call.tensors) > 1
    if indexed:
        call.tensors = [_as_index(tensor, call.tensors) for tensor in call.tensors]
    sizes = {size for t in call.tensors for size in t.shape if size > 1}
    said = call.named | call.counts
    free = set[int]() if _products(sizes) & call.counts - sizes else sizes - said
    names = {} if indexed else {size: f"size_{size}" for size in sorted(free)}
    fixed = set[int]() if indexed else (sizes - free) | call.named
    drawn = names | {size: f'int("{size}")' for size in fixed}
    filled = {
        "PARAMETERS": call.parameters, "OPERATOR": operator, "ARGUMENTS": call.arguments,
        "CONSTANTS": "".join(f"{name} = {size}\n" for size, name in names.items()),
        "INPUTS": ", ".join(_drawn(tensor, drawn) for tensor in call.tensors),
    }  # fmt: skip
    text = _MODEL
    for mark, value in filled.items():
        text = text.replace(mark, value)
    return text


def _products(sizes: set[int]) -> set[int]:
    return {math.prod(pair) for pair in itertools.combinations_with_replacement(sizes, 2)}


def _as_index(tensor: Tensor, others: Sequence[Tensor]) -> Tensor:
    """Return whole numbers that nobody drew as indices of the others: below every size."""
    if tensor.dtype not in _INDICES or (tensor.low, tensor.high) != (_LOW, _HIGH):
        return tensor
    least = min(
        (size for other in others if other.dtype not in _INDICES for size in other.shape), default=_HIGH + 1
    )
    return replace(tensor, low=0, high=min(least - 1, _HIGH))


def _drawn(tensor: Tensor, names: dict[int, str]) -> str:
    """Return the expression that draws a tensor."""
    if tensor.stride is None:
        return _values(tensor, [names.get(size, str(size)) for size in tensor.shape])
    order = sorted(range(len(tensor.shape)), key=lambda i: (-tensor.stride[i], i))  # type: ignore[index]  # see above
    step, dense = 1, True
    for i in reversed(order):
        dense = dense and tensor.stride[i] in {step, 0 if tensor.shape[i] > 1 else step}
        step *= tensor.shape[i] if tensor.stride[i] else 1
    if dense and all(tensor.stride):
        values = _values(tensor, [names.get(tensor.shape[i], str(tensor.shape[i])) for i in order])
        back = [order.index(i) for i in range(len(order))]
        return values if back == sorted(back) else f"({values}).permute({', '.join(map(str, back))})"
    whole = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride, strict=True))
    return (
        f"({_values(tensor, [str(max(whole, 1))])}).as_strided({list(tensor.shape)}, {list(tensor.stride)})"
    )


def _values(tensor: Tensor, sizes: Sequence[str]) -> str:
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    if tensor.dtype in _FLOATS:
        drawn = f"torch.rand({', '.join(sizes) or '()'}, dtype=torch.{tensor.dtype})"
        wide, low = float(f"{tensor.high - tensor.low:g}"), float(f"{abs(tensor.low):g}")
        return f"{drawn} * {wide!r} {'-' if tensor.low < 0 else '+'} {low!r}"  # whole numbers would be sizes
    if tensor.dtype.startswith("complex"):
        return f"torch.randn({', '.join(sizes) or '()'}, dtype=torch.{tensor.dtype})"
    if tensor.dtype == "bool":
        return f"torch.randint(0, 2, {shape}).bool()"
    low = max(0, tensor.low) if tensor.dtype == "uint8" else tensor.low
    return f"torch.randint({low:g}, {tensor.high + 1:g}, {shape}, dtype=torch.{tensor.dtype})"


class CallForm:
    """What adapters share whose kernels are called as the operator is; a subclass has the suffix of their names."""

    suffix: str
    """What follows the problem's name in the function's."""

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find files named like their problems, alone or in a folder of that name with `_implementation` and more."""
        found = by_name(folder, problems)
        for problem in problems:
            home = folder / problem.name
            versions = sorted(home.glob(f"{problem.name}_implementation*.py"))
            found |= {problem.name: versions[0]} if versions else {}
        return found

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Return a candidate that calls the file's function with the arguments of the recorded call.

        Raises:
            TaskError: the file does not define it.
        """
        symbol, text = task.name + self.suffix, file.read_text(errors="replace")
        if symbol not in text:
            raise TaskError(f"{file} defines no {symbol!r}")
        entry = _ENTRY
        for mark, value in zip(
            ("SYMBOL", "PARAMETERS", "ARGUMENTS"), (symbol, *called_in(task)), strict=True
        ):
            entry = entry.replace(mark, value)
        sources = (SourceFile(path="entry.py", text=entry), SourceFile(path="submission.py", text=text))
        return Candidate(sources=sources, language="torch", entry="entry.py:run")

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return a function of the benchmark's name that calls the kernel."""
        return submission_of(task, candidate, _FORM.replace("SYMBOL", task.name + self.suffix))


def called_in(task: Task) -> tuple[str, str]:
    """Return the parameters and the arguments of a loaded problem's call."""
    found = _CALLED.search(reference_text(task))
    assert found is not None, "every problem's file has it"
    return found[1], found[2]
