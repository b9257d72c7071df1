"""Every form for GPUs, compiled for each GPU that it may meet, without one: registers, spills and shared memory.

    python -m benchmarks.ops.gpu_targets [FAMILY ...] [--out rows.jsonl]

Launches are those of an op's cases, in float32 and, where there are some, in bfloat16: of each kernel the one of the
largest tiles, and of such the one with most of its switches on. Rows that are in the file already are not made again.

Covers: every kernel that a form launches on its cases; the four templates' own forms (family `templates`).
Does not cover: time; kernels of torch that a form calls; whether AMD's code is right, which nothing here runs.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import math
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.errors import ArgumentError
from kernelwright.executor.triton import _typed
from kernelwright.languages import get_language
from kernelwright.languages._triton_compile import _compile
from kernelwright.languages.triton import MORE, TARGETS
from kernelwright.ops._core.gpu import FILES, FLOATS, forms_of
from kernelwright.ops._templates import triton_form, triton_forms
from kernelwright.ops.optim import _steps
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks import Problem

Row = dict[str, Any]
GPUS = tuple(
    gpu for gpu in (*TARGETS, *MORE) if gpu["name"] in ("sm_80", "sm_90", "sm_100", "gfx942", "gfx950")
)
DTYPES = ("bfloat16", "float32")
MOST = 1 << 22
"""Elements of arguments beyond which a case is left out: torch's parts of a form are computed."""
FACTS = ("registers", "spill_bytes", "shared_bytes")


class Launch:
    """A kernel and what it is compiled for."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        names = [p.name for p in function.params]
        given = {
            **dict(zip(names, arguments, strict=False)),
            **{n: v for n, v in named.items() if n in names},
        }
        self.function, self.kernel = function, function.__name__
        constants = {p.name: given[p.name] for p in function.params if p.is_constexpr and p.name in given}
        self.signature: dict[str, str] = {}
        self.divisible: list[str] = []
        for parameter in function.params:
            kind, value, divisible = _typed(parameter, given, constants)
            if kind == "constexpr":
                constants[parameter.name] = value
            else:
                self.signature[parameter.name] = kind
            self.divisible += [parameter.name] * divisible
        self.constants = constants
        self.settings = {n: named[n] for n in ("num_warps", "num_stages") if n in named}

    @property
    def size(self) -> int:
        """The product of its tiles' sides."""
        return math.prod(v for n, v in self.constants.items() if type(v) is int and v > 0 and n.isupper())

    @property
    def switches(self) -> int:
        """How many of its switches are on."""
        return sum(v is True for v in self.constants.values())

    def facts(self, gpu: dict[str, Any], folder: Path) -> Row:
        """Compile it for a GPU."""
        wanted = {"kernel": self.kernel, "signature": self.signature, "constexprs": self.constants,
                  "divisible": self.divisible, **self.settings}  # fmt: skip
        module: Any = SimpleNamespace(**{self.kernel: self.function})
        try:
            found = _compile(module, wanted, gpu, folder)
        except Exception as error:  # noqa: BLE001  (Triton raises whatever its passes raise; it is told of)
            return {"error": f"{type(error).__name__}: {error.__cause__ or error}"[:300]}
        return {name: found[name] for name in FACTS}


@contextlib.contextmanager
def recorded(found: list[Launch], backend: str) -> Iterator[None]:
    """Have launches added to a list and not made; what they would have written is zeros."""
    from triton.runtime.jit import JITFunction

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> None:
        del grid, warmup
        found.append(Launch(self, arguments, named))

    def zeros(x: torch.Tensor, *size: Any, **how: Any) -> torch.Tensor:
        return x.new_zeros(*size, **how)

    with (
        mock.patch.object(JITFunction, "run", run), mock.patch.object(torch, "empty", torch.zeros),
        mock.patch.object(torch.version, "hip", "6.4" if backend == "hip" else None),
        mock.patch.object(torch, "empty_like", torch.zeros_like), mock.patch.object(torch.Tensor, "new_empty", zeros),
    ):  # fmt: skip
        yield


def chosen(launches: list[Launch]) -> list[Launch]:
    """Return of each kernel the launch of the largest tiles, and of such the one with most switches on."""
    most: dict[str, Launch] = {}
    for one in launches:
        before = most.setdefault(one.kernel, one)
        if (one.size, one.switches) > (before.size, before.switches):
            most[one.kernel] = one
    return list(most.values())


@cache
def launches_of(family: str, op: str, dtype: str, backend: str) -> list[Launch]:
    """Return the launches of a form on the cases of its op that are of a dtype, as for one vendor's GPUs."""
    module = ops.family(family)
    form = forms_of(Path(str(module.__file__)).parent)[0][op]
    found: list[Launch] = []
    check = next((one.check for one in ops.ops_of(module) if one.name == op), lambda *_: None)
    if family == "optim":
        with recorded(found, backend):
            _step(op, form, getattr(torch, dtype))
    for cases in (one for one in cases_of(family) if one.op == op):
        problem = Problem(task_of(family, cases))
        for workload in problem.task.workloads:
            if workload.regime == "declared" and _fits(workload, dtype):
                inputs = problem.inputs(workload, 0)
                try:
                    check(*inputs)
                except ArgumentError:  # sizes that go with no call
                    continue
                with recorded(found, backend):
                    if not form.serves(*inputs):
                        form.run(*inputs)
    return chosen(found)


def _fits(workload: Workload, dtype: str) -> bool:
    specs = [s for s in workload.arguments if isinstance(s, TensorSpec)]
    floats = [s.dtype for s in specs if s.dtype in DTYPES or s.dtype == "float16"]
    return floats[:1] == [dtype] and min(math.prod(s.shape) for s in specs) > 0 and (
        sum(math.prod(s.shape) for s in specs) <= MOST
    )  # fmt: skip


def _step(op: str, form: Any, dtype: torch.dtype) -> None:
    """Have an optimiser take a step by a form."""
    made = {"optim_adamw_many": ops.optim.AdamW, "optim_lion_many": ops.optim.Lion}[op]
    params = [torch.nn.Parameter(torch.randn(s, dtype=dtype)) for s in ((33, 7), (9000,))]
    for p in params:
        p.grad = torch.randn_like(p)

    def run(_: _steps.Step, numbers: tuple[float, ...], rows: list[object]) -> bool:
        if not form.serves(numbers, rows):
            form.run(numbers, rows)
        return True

    with mock.patch.object(_steps.Step, "run", run):
        made(params, lr=1e-2).step()


def rows_of(family: str, dtype: str, done: set[tuple[str, ...]]) -> Iterator[Row]:
    """Compile the forms of a family for every GPU; a row is one kernel on one GPU."""
    if family == "templates":
        yield from _templates(done)
        return
    for op in sorted(forms_of(Path(str(ops.family(family).__file__)).parent)[0], reverse=True):
        for gpu in GPUS if (family, op, dtype) not in done else ():
            for launch in launches_of(family, op, dtype, gpu["backend"]):
                with tempfile.TemporaryDirectory() as folder:
                    facts = launch.facts(gpu, Path(folder))
                yield {"family": family, "op": op, "dtype": dtype, "kernel": launch.kernel, "gpu": gpu["name"], **facts,
                       **launch.settings, "constants": launch.constants}  # fmt: skip


def _templates(done: set[tuple[str, ...]]) -> Iterator[Row]:
    for name in triton_forms():
        if ("templates", name, "") in done:
            continue
        done.add(("templates", name, ""))
        build = get_language("triton").build(triton_form(name), deadline_s=600)
        for gpu in GPUS:
            facts = {fact: build.evidence.get(f"{gpu['name']}.{fact}") for fact in FACTS}
            yield {"family": "templates", "op": name, "dtype": "", "gpu": gpu["name"], **facts}


def families() -> tuple[str, ...]:
    """Name the families with forms, and the templates."""
    home = Path(str(importlib.import_module("kernelwright.ops").__file__)).parent
    return (*sorted({path.parent.name for path in home.glob(f"*/{FILES}")}), "templates")


def table(rows: list[Row]) -> str:
    """Return the worst of each op on each GPU: registers, shared kB, and bytes that spill."""
    lines = [
        "| family, op | " + " | ".join(str(gpu["name"]) for gpu in GPUS) + " |",
        "|---|" + "---|" * len(GPUS),
    ]
    for name in dict.fromkeys((row["family"], row["op"]) for row in rows):
        cells = []
        for gpu in GPUS:
            own = [r for r in rows if (r["family"], r["op"], r["gpu"]) == (*name, gpu["name"])]
            if any("error" in row for row in own):
                cells.append("does not compile")
                continue
            registers, spills, shared = (max(row[fact] for row in own) for fact in FACTS)
            cells.append(f"{registers}, {shared / 1024:.3g}" + (f", **{spills}**" if spills else ""))
        lines.append(f"| {' '.join(name)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Compile what is asked for; print the table of all rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", default=families())
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    there = options.out and options.out.exists()
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if there else []
    done = {(row["family"], row["op"], row["dtype"]) for row in rows}
    for dtype, family in itertools.product(DTYPES, options.families):
        for row in rows_of(family, dtype, done):
            rows.append(row)
            if options.out:
                with options.out.open("a") as out:
                    out.write(json.dumps(row, default=str) + "\n")  # constants may be dtypes of Triton
    print(table(rows))


if __name__ == "__main__":
    assert set(FLOATS) >= {getattr(torch, name) for name in DTYPES}
    main()
