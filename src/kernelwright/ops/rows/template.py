"""Match: lower a whole graph to a row program and offer it as a template."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ...records import Configuration, Parameter, Space, Workload
from ...tasks.capture import Graph
from .._parametric import KernelTemplate, Rendered, forms
from . import opencl, opencl_pointwise, rules, triton  # noqa: F401  `rules` registers the lowering rules
from ._plan import Plan
from ._printer import RowPrinter
from ._program import Program, Value, lower

_MIB = 1 << 20
KINDS = {
    "loss": frozenset({"nll_loss_forward", "nll_loss2d_forward"}),
    "norm": frozenset({
        "native_layer_norm", "native_group_norm", "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training", "rsqrt",
    }),
    "softmax": frozenset({"_softmax", "_safe_softmax", "_log_softmax", "logsumexp"}),
    "reduce": frozenset({
        "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "max", "min", "any", "all", "var",
        "linalg_vector_norm",
    }),
}  # fmt: skip
"""What a row program is called, by an operator in it, the most specific first; else `pointwise`."""


def match(graph: Graph, workload: Workload) -> Iterator[KernelTemplate]:
    """Yield the row programs of a graph in C++, Triton and OpenCL."""
    yield from forms(
        graph, partial(_cpp, workload), triton.template, opencl_pointwise.template, opencl.template
    )


def _cpp(workload: Workload, graph: Graph) -> KernelTemplate:
    names = {node.op.split(".")[1] if node.op.startswith("aten.") else node.op for node in graph.ops}
    kind = next((name for name, ops in KINDS.items() if names & ops), "pointwise")
    template = row_template(lower(graph, workload), kind, f"{kind}: {', '.join(sorted(names))}")
    template.render(template.default())
    return template


def row_template(program: Program, kind: str, summary: str) -> KernelTemplate:
    """Offer a program as a template.

    Raises:
        Unprintable: the program does not run over one iteration space.
    """
    fused = online(program)
    plan = Plan(program)
    parameters = [
        Parameter(name="unroll", values=(4, 8, 16, 64) if plan.columns else (1, 2, 4, 8)),
        Parameter(name="serial_below", values=(4096, 16384, 65536)),
    ]
    first: Configuration = {
        "unroll": _columns_in_flight(plan) if plan.columns else 2 if plan.over and plan.outer else 4,
        "serial_below": 16384,
    }
    if RowPrinter(plan, kind, summary, 4, 0, 1).streams:
        parameters.append(Parameter(name="stream_from_mib", values=(0, 4, 16)))
        first["stream_from_mib"] = 4
    if plan.columns:
        parameters.append(Parameter(name="ahead", values=(0, 4, 16)))
        first["ahead"] = 16
    if Plan(program, keep=True).kept:
        parameters.append(Parameter(name="keep", values=(True, False)))
        first["keep"] = True
    if fused is not None:
        parameters.append(Parameter(name="online", values=(False, True)))
        first["online"] = not plan.columns
    source = partial(_source, program, fused, kind, summary)
    return KernelTemplate(kind, "cpp", Space(parameters=tuple(parameters)), first, source, summary)


def _columns_in_flight(plan: Plan) -> int:
    """Return how many vectors of columns fit in registers: a best value needs its position as well."""
    return 8 if any(v.what.startswith("arg") for v in plan.values) else 16


def _source(
    program: Program, fused: Program | None, kind: str, summary: str, configuration: Configuration
) -> Rendered:
    chosen = fused if fused is not None and configuration.get("online") else program
    printer = RowPrinter(
        plan=Plan(chosen, bool(configuration.get("keep"))), symbol=f"{kind}_rows", summary=summary,
        unroll=int(configuration["unroll"] or 1), serial_below=int(configuration["serial_below"] or 0),
        stream_from=int(configuration.get("stream_from_mib") or 0) * _MIB,
        ahead=int(configuration.get("ahead") or 0),
    )  # fmt: skip
    return Rendered(printer.text(), printer.symbol)


def online(program: Program) -> Program | None:
    """Fold maximum and sum of exponentials in one pass, if the program has them in two (online softmax).

    Finds `sum(exp(x - m))` with `m` the maximum of `x` along the same axes.
    """
    new: dict[Value, Value] = {}
    values: list[Value] = []
    changed = False
    for old in program.values:
        value = replace(old, args=tuple(new[a] if isinstance(a, Value) else a for a in old.args))
        found = _exponentials(old)
        if found is not None:
            peak, finite = found
            changed = True
            value = replace(value, what="sumexp", args=(new[peak.args[0]],))  # type: ignore[index]
            values.append(value)
            if not finite:
                infinite = replace(
                    value, name=f"{value.name}_inf", op="point", what="isinf", args=(new[peak],), over=()
                )
                value = replace(
                    value, name=f"{value.name}_or_nan", op="point", what="where",
                    args=(infinite, float("nan"), values[-1]), over=(),
                )  # fmt: skip
                values += [infinite, value]
        else:
            values.append(value)
        new[old] = value
    if not changed:
        return None
    outputs = tuple(replace(o, value=new[o.value]) for o in program.outputs)
    return replace(program, values=tuple(values), outputs=outputs)


def _exponentials(value: Value) -> tuple[Value, bool] | None:
    """Return the maximum behind `sum(exp(x - m))`, and whether it is guarded against infinity."""
    if (value.op, value.what) != ("reduce", "sum"):
        return None
    power = value.args[0]
    shifted = power.args[0] if isinstance(power, Value) and power.what == "exp" else None
    if not isinstance(shifted, Value) or shifted.what != "sub":
        return None
    x, peak = shifted.args
    finite = isinstance(peak, Value) and peak.what == "finite"
    peak = peak.args[0] if isinstance(peak, Value) and finite else peak
    matches = isinstance(peak, Value) and peak.what == "max" and peak.args == (x,) and peak.over == value.over
    return (peak, finite) if isinstance(peak, Value) and matches else None
