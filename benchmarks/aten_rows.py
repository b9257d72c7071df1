"""Make the table of the suite `aten` from torch's own OpInfo: which operators become tasks, and why others do not.

    pip install expecttest            torch's list of operators needs it
    python -m benchmarks.aten_rows --to rows.jsonl
    python -m benchmarks.aten_rows --to rows.jsonl --table src/kernelwright/suites/own/aten.tsv --left-out left-out.tsv

The first command goes on where it was stopped; the second writes what was found as a table. Each operator is tried on
its samples, the richest first: sizes become axes where the operator takes other sizes, the text is loaded as a task,
and it stays if the task refuses every wrong answer. Then once more in another dtype and layout.
"""

import argparse
import itertools
import json
import math
import random
import signal
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.suites import moved_bytes
from kernelwright.suites.own._row import task_text
from kernelwright.suites.own.aten import COLUMNS, of_line
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.forms._expression import declared
from kernelwright.tasks.inputs._draw import draw, generator
from kernelwright.verify import admit

MOST_SECONDS = 30
MOST_ELEMENTS = 1 << 14
MOST_SAMPLES = 8
SEEDS = (0, 1, 2)
OTHERS = {
    "float32": ("bfloat16", "float16", "float64"), "int64": ("int32", "int16", "uint8"), "bool": ("uint8",),
}  # fmt: skip
LAYOUTS = ("transposed", "strided")
_OPINFO_SEED = 42
"""What OpInfo's own wrappers of random operators set."""
_OLD = ("cholesky", "lu", "lu_solve", "lu_unpack", "qr", "triangular_solve", "index_reduce.prod", "index_reduce.mean",
        "index_reduce.amax", "index_reduce.amin", "chalf")  # fmt: skip
UNTRIED = dict.fromkeys(_OLD, "torch warns that it is deprecated, or in beta")
UNTRIED |= dict.fromkeys(("normal", "svd"), "at sizes of other seeds a wrong answer passes")
"""Operators that are not tried, and why."""
SPECIAL = frozenset({"isnan", "isinf", "isposinf", "isneginf", "isfinite", "isreal", "nan_to_num"})
"""Operators whose inputs must hold NaN and infinities to tell a right answer from a constant."""
MARKED = "x0 = x0.where(x0 < 0.8, math.nan).where(x0 > -0.9, -math.inf).where(x0.abs() > 0.2, math.inf); "
BY_HAND = {
    "einsum": ("x0=dtype[b, n, k]; x1=dtype[b, k, m]", "b=3..6 n=12..24 k=12..30 m=12..24",
               "torch.einsum('bnk,bkm->nbm', x0, x1)"),
    "nn.functional.embedding": ("x0=int64[n, m] index(k); x1=dtype[k, d]", "n=8..16 m=6..12 k=30..60 d=16..32",
                                "torch.nn.functional.embedding(x0, x1)"),
    "nn.functional.embedding_bag": ("x0=int64[n, m] index(k); x1=dtype[k, d]", "n=8..16 m=6..12 k=30..60 d=16..32",
                                    "torch.nn.functional.embedding_bag(x0, x1, mode='sum')"),
    "nn.functional.unfold": ("x0=dtype[b, k, n, m]", "b=2..4 k=3..6 n=10..18 m=10..18",
                             "torch.nn.functional.unfold(x0, (3, 2), padding=1)"),
    "nn.functional.fractional_max_pool2d": (
        "x0=dtype[1, 1, m, m]; x1=dtype[1, 1, n] uniform(0, 1)", "n=2 m=60..80",
        "torch.nn.functional.fractional_max_pool2d(x0, (1, 1,), output_ratio=(0.5, 0.5,), return_indices=True, "
        "_random_samples=x1)",
    ),
    "mT": ("x0=dtype[b, n, m]", "b=3..6 n=12..24 m=12..30", "x0.mT.contiguous()"),
}  # fmt: skip
"""Arguments, sizes and call of operators whose samples need more than a table's line can say."""
CATEGORIES = ("nn.functional", "linalg", "fft", "special", "signal", "masked")


@dataclass
class Call:
    """One sample as an expression over named tensors."""

    text: str
    tensors: dict[str, torch.Tensor]


class Late(Exception):
    """An operator took too long."""

    @classmethod
    def raised(cls, *_: object) -> None:
        """Raise it, as a signal's handler."""
        raise cls


def main() -> int:
    """Try every operator, or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--left-out", type=Path)
    options = parser.parse_args()
    if options.table is None:
        return find(options.to)
    found = [json.loads(line) for line in options.to.read_text().splitlines()]
    rows = sorted((f["row"] for f in found if "row" in f), key=lambda r: (r["group"], r["name"]))
    lines = ["\t".join(COLUMNS), *("\t".join(r[c] for c in COLUMNS) for r in rows)]
    options.table.write_text("\n".join(lines) + "\n")
    if options.left_out:
        left = sorted((f["operator"], f["why"]) for f in found if "row" not in f)
        options.left_out.write_text("".join(f"{name}\t{why}\n" for name, why in left))
    print(f"{len(rows)} operators, {len(found) - len(rows)} left out")
    return 0


def find(to: Path) -> int:
    """Try every operator that is not in the file yet."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    torch.set_warn_always(True)
    signal.signal(signal.SIGPROF, Late.raised)
    known = {json.loads(line)["operator"] for line in to.read_text().splitlines()} if to.exists() else set()
    with to.open("a") as out:
        for op in op_db:
            name = ".".join(filter(None, (op.name, op.variant_test_name)))
            if name in known:
                continue
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
            try:
                if name in UNTRIED:
                    raise ValueError(UNTRIED[name])
                found = {"operator": name, "row": by_hand(name) if name in BY_HAND else tried(op)}
            except Late:
                found = {"operator": name, "why": f"not tried within {MOST_SECONDS} s of CPU time"}
            except Exception as error:  # noqa: BLE001  whatever an operator raises is why it is left out
                found = {"operator": name, "why": " ".join(str(error).split())[:200] or type(error).__name__}
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            out.write(json.dumps(found) + "\n")
            out.flush()
            print(name, found.get("why", "ok"), file=sys.stderr, flush=True)
    return 0


def tried(op) -> dict[str, str]:
    """Return the operator's row; raises with the reason if no sample gives a task."""
    supported = {str(t).removeprefix("torch.") for t in op.supported_dtypes("cpu")}
    dtype = next((d for d in ("float32", "int64", "bool") if d in supported), None)
    if dtype is None:
        raise ValueError("it takes complex numbers only")
    samples = list(itertools.islice(op.sample_inputs("cpu", getattr(torch, dtype)), 60))
    reasons: list[str] = []
    for sample, path in itertools.product(richest(samples), paths_of(op)):
        try:
            call = expressed(path, sample)
            check_same(op, sample, call)
            row = row_of(op, call, dtype, supported)
        except (
            ValueError,
            KernelwrightError,
            RuntimeError,
            TypeError,
            NotImplementedError,
            Warning,
        ) as error:
            reasons.append(" ".join(str(error).split())[:160])
            continue
        return row
    raise ValueError(reasons[0] if reasons else "it has no sample of use")


def by_hand(name: str) -> dict[str, str]:
    """Return the row of an operator that is written by hand; raises if the task is not admitted."""
    group, _, bare = name.rpartition(".")
    arguments, sizes, call = BY_HAND[name]
    group = (group or "tensor").replace(".", "_")
    row = {"group": group, "name": bare, "arguments": arguments, "sizes": sizes, "call": call}
    return with_forms(row, "float32", set(OTHERS["float32"]))


def paths_of(op) -> list[str]:
    """Return how the operator may be called, as text."""
    found = []
    for home, prefix in ((torch, "torch."), (torch.Tensor, "torch.Tensor.")):
        place = home
        for part in op.name.split("."):
            place = getattr(place, part, None)
        if callable(place):
            found.append(prefix + op.name)
    if not found:
        raise ValueError("torch has no function of that name")
    return found


def richest(samples: list) -> list:
    """Return a few samples of different shapes, those of many elements and options first."""

    def key(sample) -> tuple:
        tensors = [
            t for t in _leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)
        ]
        empty = any(t.numel() == 0 for t in tensors) or not tensors
        ndim = max((t.dim() for t in tensors), default=0)
        sizes = {s for t in tensors for s in t.shape if s > 1}
        return (empty, ndim < 2, -len(tensors), -len(sizes), -sum(t.numel() for t in tensors))

    seen, found = set(), []
    for sample in sorted(samples, key=key):
        leaves = _leaves((sample.input, sample.args, sample.kwargs))
        shapes = repr([tuple(t.shape) if isinstance(t, torch.Tensor) else t for t in leaves])
        if shapes not in seen and not key(sample)[0]:
            seen.add(shapes)
            found.append(sample)
    return found[:MOST_SAMPLES]


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _leaves(part)
    else:
        yield value


def expressed(path: str, sample) -> Call:
    """Return the call as text."""
    tensors: dict[str, torch.Tensor] = {}

    def text(value: object) -> str:
        if isinstance(value, torch.Tensor):
            if value.dtype.is_complex or value.layout != torch.strided or value.is_quantized:
                raise ValueError("it takes complex or sparse tensors")
            for name, known in tensors.items():
                if known is value:
                    return name
            tensors[f"x{len(tensors)}"] = value.detach()
            return f"x{len(tensors) - 1}"
        if isinstance(value, types.GenericAlias | torch.Generator) or callable(value):
            raise ValueError("it takes a function or a generator")
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, tuple):
            return f"({''.join(text(v) + ', ' for v in value).rstrip()})"
        if isinstance(value, float) and value in (float("inf"), -float("inf")):
            return "math.inf" if value > 0 else "-math.inf"
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return str(value)
        if isinstance(value, bool | int | float | str | slice) or value is None or value is Ellipsis:
            return repr(value)
        raise ValueError(f"it takes a {type(value).__name__}")

    parts = [text(sample.input), *map(text, sample.args)]
    parts += [f"{k}={text(v)}" for k, v in sample.kwargs.items()]
    return Call(f"{path}({', '.join(parts)})", tensors)


def run(text: str, tensors: dict[str, torch.Tensor]):
    """Evaluate the expression."""
    torch.manual_seed(_OPINFO_SEED)
    return eval(text, {"torch": torch, "math": math}, dict(tensors))


def check_same(op, sample, call: Call) -> None:
    """Raise unless the expression is the operator."""
    torch.manual_seed(_OPINFO_SEED)
    want = op(sample.input, *sample.args, **sample.kwargs)
    found = run(call.text, {k: v.clone() for k, v in call.tensors.items()})
    for a, b in itertools.zip_longest(_leaves(want), _leaves(found)):
        if isinstance(a, torch.Tensor) and not (a.shape == b.shape and torch.allclose(a, b, equal_nan=True)):
            raise ValueError("the function of its name computes something else")


def values_of(tensor: torch.Tensor, axes: dict[int, str]) -> tuple[str, str]:
    """Return the dtype as text and the words of a tensor's values."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.dtype is torch.bool:
        return dtype, "bernoulli(0.5)"
    low, high = float(tensor.min()), min(float(tensor.max()), 1000.0)
    if not tensor.dtype.is_floating_point:
        bound = min((s for s in axes if s > high), default=None)
        if low >= 0 and bound is not None and dtype in ("int64", "int32"):
            return dtype, f"index({axes[bound]})"
        return dtype, f"integers({int(low)}, {int(high) + 1})"
    if low >= 0:
        return dtype, f"uniform({round(low, 2)}, {max(round(high, 2), round(low, 2) + 1)})"
    if tensor.numel() >= 20 and max(-low, high) <= 1:
        return dtype, "uniform(-1, 1)"
    return dtype, "normal"


def row_of(op, call: Call, dtype: str, supported: set[str]) -> dict[str, str]:
    """Return the table's row for a sample; raises if the task is not admitted."""
    if not call.tensors:
        raise ValueError("it takes no tensor")
    sizes = sorted({s for t in call.tensors.values() for s in t.shape if s > 1})
    axes = {s: "nmkdefghij"[i] for i, s in enumerate(sizes[:10])}
    prelude, arguments = MARKED if op.name in SPECIAL else "", {}
    for name, tensor in call.tensors.items():
        kind, words = values_of(tensor, axes)
        shape = ", ".join(axes.get(s, str(s)) for s in tensor.shape)
        square = (
            tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1 and tensor.dtype.is_floating_point
        )
        if square and torch.allclose(tensor, tensor.mT, atol=1e-5):
            words = "normal"
            prelude += f"{name} = {name} @ {name}.mT / {name}.shape[-1] + torch.eye({name}.shape[-1]); "
        arguments[name] = f"{'dtype' if kind == dtype else kind}[{shape}] {words}".replace(" normal", "")
    chosen = scaled(call, arguments, dict(zip(axes.values(), axes, strict=True)), dtype, prelude)
    text = in_reals(call.text, run(call.text, call.tensors))
    group = next((c for c in CATEGORIES if op.name.startswith(f"{c}.")), "tensor")
    name = op.name.removeprefix(f"{group}.").replace(".", "_").lstrip("_")
    if op.variant_test_name:
        name += f"_{op.variant_test_name.replace('.', '_').replace('-', '_')}"
    row = {
        "group": group.replace(".", "_"), "name": name,
        "arguments": "; ".join(f"{k}={v}" for k, v in arguments.items()),
        "sizes": " ".join(f"{k}={v}" for k, v in chosen.items()), "call": prelude + text,
    }  # fmt: skip
    return with_forms(row, dtype, supported)


def in_reals(text: str, out: object) -> str:
    """Return the call with a complex result as pairs of real numbers."""
    if isinstance(out, torch.Tensor) and out.is_complex():
        return f"torch.view_as_real({text}.resolve_conj())"
    if any(isinstance(t, torch.Tensor) and t.is_complex() for t in _leaves(out)):
        raise ValueError("it returns complex tensors among others")
    return text


def with_forms(row: dict[str, str], dtype: str, supported: set[str]) -> dict[str, str]:
    """Return the row with its dtypes and layouts: the first as it is, then another in each other layout."""
    row["forms"] = f"{dtype}:contiguous"
    check_admitted(row)
    source = random.Random(row["name"])
    others = [d for d in OTHERS[dtype] if d in supported] or [dtype]
    # What `as_strided` returns depends on how its argument lies in memory, so that another layout is another problem.
    for layout in ("contiguous",) if "as_strided" in row["name"] else source.sample(LAYOUTS, len(LAYOUTS)):
        for other in source.sample(others, len(others)):
            try:
                check_admitted(row | {"forms": f"{other}:{layout}"})
            except (ValueError, KernelwrightError, RuntimeError, Warning):
                continue
            row["forms"] += f" {other}:{layout}"
            others = [d for d in others if d != other] or [dtype]
            break
    return row


def check_admitted(row: dict[str, str]) -> None:
    """Raise unless every form of the row is a task that refuses every wrong answer, at sizes of several seeds."""
    for made, seed in itertools.product(of_line("\t".join(row[c] for c in COLUMNS)), SEEDS):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            path = Path(folder) / "task.py"
            path.write_text(task_text(made, seed, "aten"))
            warnings.simplefilter("error")
            problem = Problem(load_task(path, minutes=3))
            admission = admit(problem, deadline_s=180)
        if admission.passing or not admission.caught:
            says = f"wrong answers pass: {', '.join(admission.passing)}"
            raise ValueError(says if admission.caught else "the native op is not accurate enough to judge by")
        if not moved_bytes(problem):
            raise ValueError("a view: no byte of it must be read or written")


def scaled(
    call: Call, arguments: dict[str, str], sizes: dict[str, int], dtype: str, prelude: str
) -> dict[str, str]:
    """Return each axis as a range if the operator takes other sizes, as it is if not."""

    def works(chosen: dict[str, int]) -> bool:
        try:
            specs = [declared(k, v, {**chosen, "dtype": dtype}) for k, v in arguments.items()]
            if sum(torch.Size(s.shape).numel() for s in specs) > MOST_ELEMENTS:
                return False
            scope = {s.name: draw(s, generator(0, s.name)) for s in specs}
            out = run(call.text, with_prelude(prelude, scope))
        except Exception:  # noqa: BLE001  whatever it raises, it does not take these sizes
            return False
        tensors = [t for t in _leaves(out) if isinstance(t, torch.Tensor)]
        return bool(tensors) and sum(t.numel() for t in tensors) <= MOST_ELEMENTS

    if not works(sizes):
        raise ValueError("it does not take fresh values of its sample's kind")
    chosen, ranges = dict(sizes), {k: str(v) for k, v in sizes.items()}
    for axis in sorted(sizes, key=sizes.__getitem__):
        size = sizes[axis]
        for factor, step in itertools.product((12, 8, 5, 3, 2), (1, size)):
            low, high = max(2, size * factor * 3 // 4 // step * step), size * factor // step * step
            middle = (low + high) // 2 // step * step
            if low < high and all(
                works(chosen | {axis: v}) for v in (low, high, middle, min(low + step, high))
            ):
                chosen[axis] = high
                ranges[axis] = f"{low}..{high}" + (f"/{step}" if step > 1 else "")
                break
    return ranges


def with_prelude(prelude: str, scope: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the tensors after what comes before the call."""
    exec(prelude.rstrip("; ") or "pass", {"torch": torch, "math": math}, scope)
    return scope


if __name__ == "__main__":
    raise SystemExit(main())
