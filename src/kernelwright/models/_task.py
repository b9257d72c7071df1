"""Region → Task: the part as a module of its own, on inputs like those that occur inside the model."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import torch

from ..records import Reference, SourceFile, Task, TensorSpec, Workload
from ..tasks import dtype_name
from ..tasks.capture import UNPACK
from ..tasks.capture import packed as packed_text
from ..tasks.forms import kernelbench
from ._operators import imports_of
from ._regions import Region
from ._timing import Fact, Timed
from .pieces import Capture, Printed, Unprintable, expression, listed

_FILE = """import torch
from torch import nn
{imports}{unpack}

class Model(nn.Module):
    def __init__(self):
        super().__init__(){weights}

    def forward({arguments}):{body}


def _drawn():
    return [{inputs}
    ]


def get_inputs():
    return _drawn()
"""


def region_task(capture: Capture, region: Region, timed: Timed) -> Task:
    """Return a region as a task: weights are its state, so that one kernel serves every use.

    The shapes are those of the model and no others. Real inputs are normal with the root mean square that they have
    inside the model, whole numbers lie in the range that occurs, and masks are drawn.

    Raises:
        Unprintable: an input cannot be described, or a result shares memory with an input.
        TaskError: the part does not run by itself.
    """
    text, part = region.texts[0], f"region_{region.key}"
    _check(text, timed)
    return kernelbench.load(
        Path(f"{part}.py"), region_text(capture, text, timed), max_elements=None, contract=None
    )


def region_sketch(capture: Capture, region: Region, timed: Timed) -> Task:
    """Return a region's task with its search workload alone, nothing of it run: enough to bound it.

    Raises:
        Unprintable: an input cannot be described, or a result shares memory with an input.
    """
    text = region.texts[0]
    _check(text, timed)
    return _sketch(f"region_{region.key}", region_text(capture, text, timed), text, timed)


def graph_sketch(capture: Capture, timed: Timed) -> Task:
    """Return a whole graph as a task with its search workload alone, nothing of it run: enough to bound it.

    Raises:
        Unprintable: an input cannot be described, or a constant is too large.
    """
    return _sketch("whole_graph", graph_text(capture, timed), capture, timed)


def _sketch(name: str, text: str, given: Printed | Capture, timed: Timed) -> Task:
    path = f"{name}.py"
    workload = Workload(
        name="as-declared",
        arguments=tuple(_spec(f"a{i}", timed.facts[n]) for i, n in enumerate(given.inputs)),
        state=tuple(_spec(f"w{i}", timed.facts[n]) for i, n in enumerate(given.weights)),
        outputs=tuple(_spec(f"output{i}", timed.facts[n]) for i, n in enumerate(given.outputs)),
    )
    reference = Reference(
        files=(SourceFile(path=path, text=text),), entry=f"{path}:Model", style="module", origin=path
    )
    return Task(name=name, form="kernelbench", reference=reference, workloads=(workload,))


def _spec(name: str, fact: Fact) -> TensorSpec:
    return TensorSpec(name=name, shape=fact.shape, dtype=dtype_name(fact.dtype))


def _check(text: Printed, timed: Timed) -> None:
    for name in text.outputs:
        if (owner := timed.facts[name].views) and owner in {*text.inputs, *text.weights}:
            raise Unprintable("its result is a view of what it is given")


def region_text(capture: Capture, text: Printed, timed: Timed) -> str:
    """Return the text of a region in the KernelBench form."""
    values = {**capture.values, **capture.constants}
    inputs = [_mask(timed.facts[n]) or _input(timed.facts[n], values.get(n)) for n in text.inputs]
    weights = [_weight(f"w{i}", timed.facts[n]) for i, n in enumerate(text.weights)]
    arguments = ", ".join(["self", *(f"a{i}" for i in range(len(text.inputs)))])
    held = [f"w{i} = self.w{i}" for i in range(len(text.weights))]
    body = [
        *held,
        *text.lines,
        f"return {listed(text.returned) if len(text.returned) > 1 else text.returned[0]}",
    ]
    unpack = UNPACK if any("_unpacked" in line for line in (*inputs, *weights)) else ""
    where = "a0.device" if text.inputs else "w0.device"
    return _FILE.format(
        imports="",
        unpack=unpack,
        weights="".join(f"\n        {line}" for line in weights),
        arguments=arguments,
        body="".join(f"\n        {timed.placed(line, where)}" for line in body),
        inputs="".join(f"\n        {line}," for line in inputs),
    )


def packed(value: torch.Tensor) -> str:
    """Return Python that makes a tensor of the same values, where `_unpacked` is defined (`UNPACK`).

    Raises:
        Unprintable: it is too large for a text.
    """
    text = packed_text(value)
    if text is None:
        raise Unprintable(f"a constant of {tuple(value.shape)} does not fit into a text")
    return text


def _input(fact: Fact, value: torch.Tensor | None) -> str:
    """Return Python that draws an input like the one that occurs."""
    shape, dtype = fact.shape, fact.dtype
    if dtype.is_floating_point and fact.finite:
        drawn = f"torch.randn({shape}) * {fact.rms or 1.0:.4g}"
        return drawn if dtype is torch.float32 else f"({drawn}).to({dtype})"
    if dtype in (torch.int64, torch.int32):
        return f"torch.randint({int(fact.low)}, {int(fact.high) + 1}, {shape}, dtype={dtype})"
    if value is None:
        raise Unprintable(f"an input of {dtype} is neither numbers nor a known mask")
    return packed(value)


def _mask(fact: Fact) -> str | None:
    """Return Python that draws a mask, whole or added, of whose rows three quarters are kept; None for other inputs.

    The first of each row is kept, for nothing is left of a row without any. No kernel may then rely on the mask that
    occurs in the model.
    """
    first = f" | (torch.arange({fact.shape[-1]}) == 0)" if fact.shape else ""
    drawn = f"(torch.rand({fact.shape}) < 0.75){first}"
    if fact.dtype is torch.bool:
        return drawn
    if fact.dtype.is_floating_point and fact.low == -torch.inf and fact.high == 0.0:
        return f"torch.zeros({fact.shape}, dtype={fact.dtype}).masked_fill(~({drawn}), -torch.inf)"
    return None


def _weight(name: str, fact: Fact) -> str:
    """Return Python that makes a weight, a parameter where it is of real numbers."""
    if not fact.dtype.is_floating_point:
        return f"self.register_buffer({name!r}, torch.zeros({fact.shape}, dtype={fact.dtype}))"
    centre = (fact.low + fact.high) / 2 if fact.low == fact.high or fact.low > 0 else 0.0
    spread = max(fact.rms**2 - centre**2, 0.0) ** 0.5 or 0.1 * (abs(centre) or 1.0)
    return f"self.{name} = nn.Parameter(({centre:.4g} + torch.randn({fact.shape}) * {spread:.4g}).to({fact.dtype}))"


def graph_text(capture: Capture, timed: Timed, drawing: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the text of a whole graph in the KernelBench form: weights are `w0`, `w1` ... in their order.

    Args:
        capture: The graph.
        timed: What its tensors are like.
        drawing: Python that draws an input, where that is known, by its name.

    Raises:
        Unprintable: an input cannot be described, or a constant is too large.
    """
    names = {name: f"a{i}" for i, name in enumerate(capture.inputs)}
    names |= {name: f"self.w{i}" for i, name in enumerate(capture.weights)}
    names |= {name: f"self.c{i}" for i, name in enumerate(capture.constants)}
    lines = []
    device = f"{next(iter(names.values()))}.device"  # where it is asked for its sizes alone, that is meta
    for number, node in enumerate(capture.nodes):
        text = expression(node, lambda n: names[n]).replace("torch.device('cpu')", device)
        lines.append(f"v{number} = {text}")
        names[node.name] = f"v{number}"
    lines += [f"{names[old]}.copy_({names[new]})" for old, new in capture.mutations]
    results = [names[o] for o in capture.outputs]
    lines.append(f"return {listed(results) if len(results) > 1 else results[0]}")
    weights = [_weight(f"w{i}", timed.facts[n]) for i, n in enumerate(capture.weights)]
    weights += [
        f"self.register_buffer('c{i}', {packed(v)}.to(torch.get_default_device()), persistent=False)"
        for i, v in enumerate(capture.constants.values())
    ]
    inputs = [drawing.get(n) or _input(timed.facts[n], capture.values[n]) for n in capture.inputs]
    return _FILE.format(
        imports="".join(f"{line}\n" for line in imports_of(capture.nodes)),
        unpack=UNPACK,
        weights="".join(f"\n        {line}" for line in weights),
        arguments=", ".join(["self", *(f"a{i}" for i in range(len(capture.inputs)))]),
        body="".join(f"\n        {timed.placed(line, 'a0.device')}" for line in lines),
        inputs="".join(f"\n        {line}," for line in inputs),
    )
