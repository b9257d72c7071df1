"""Program → Python function that allocates buffers, calls kernels and torch in sequence, and returns the outputs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from ..languages.prepared import PASSED_ON
from ..tasks.capture import UNPACK, Ref
from ..tasks.capture import Node as Captured
from .graph import Graph, Node, Permute, Real, text_of
from .printers import Unprintable
from .tile import (
    Buffer,
    Contraction,
    Kernel,
    NativeCall,
    Program,
    Section,
    Step,
    led_by,
    touched,
    written,
)

Launch = Callable[[Kernel | Contraction], list[str]]
"""A step → the statements that run it; its outputs are already allocated."""


class NotCalled(Unprintable):
    """A native operation cannot be written as a call."""


class Calls:
    """Prints the function that runs a program."""

    def __init__(
        self,
        program: Program,
        graph: Graph,
        entry: str,
        launch: Launch,
        *,
        device: str = "",
        sections: Sequence[tuple[Section, str]] = (),
    ) -> None:
        """`sections` are run by one statement each, all other kernels by `launch`."""
        self.program, self.graph, self.entry, self.launch = program, graph, entry, launch
        self.device = device
        self.ends = {section.steps[-1].name: (section, statement) for section, statement in sections}
        """Last kernel of a section → the section, and what runs it."""
        self.inside = {step.name for section, _ in sections for step in section.steps}
        self.placed = f", device={device}" if device else ""
        self.operations = {op.name: op for op in graph.operations}
        self.made: set[str] = set()
        self.held: list[str] = []
        """What `prepare` returns: precomputed buffers, and weights that are read unchanged."""
        self.native = {s.name: s for s in program.natives}
        self.fed = {s.fed for s in program.natives}
        """Buffers computed a panel at a time."""
        self.changed = {name for name, _ in program.updates}
        """Arguments that the function itself changes."""

    def lines(self) -> list[str]:
        """Return the function, after `prepare(weights)` if some steps run ahead of the calls.

        Raises:
            NotCalled: a native operation cannot be written as a call.
        """
        program = self.program
        arguments = {b.position: b.name for b in program.buffers if b.role == "argument"}
        count = max([*arguments, *(p for p, _ in program.scalars)], default=-1) + 1
        names = [arguments.get(i, f"scalar{i}") for i in range(count)]
        ahead = [*self._constants(), *([*self._prepare(), "", ""] if program.ahead else [])]
        body = []
        if program.ahead:
            names = [*(n for n in names if n not in program.weights), "packed"]
            body.append(f"{_several(self.held)} = packed")
        for name, (position, dim) in program.symbols.items():
            body.append(f"{name} = {arguments[position]}.shape[{dim}]")
        body += [line for b in self._given() if b.name in names for line in self._checked(b)]
        changed = [b for b in self._given() if b.name in self.held and b.name in self.changed]
        body += [line for b in changed for line in self._checked(b)]
        kept = (b for b in map(program.buffer, self.held) if b not in changed)
        body += [line for b in kept for line in _shape_checked(b)]
        body += self._guards()
        called = [s for s in program.steps if s.name not in program.ahead]
        body += [line for step in called for line in self._step(step)]
        body += [f"{name}_given.copy_({new})" for name, new in program.updates]
        outputs = sorted((b for b in program.buffers if b.role == "output"), key=lambda b: b.position)
        listed = ", ".join(b.name for b in outputs)
        body.append(f"return {listed}" if len(outputs) == 1 else f"return ({listed})")
        return [*ahead, *_function(self.entry, names, body)]

    def _constants(self) -> list[str]:
        """Return the tensors that native operations read and nothing changes, made when the file is loaded."""
        found = [op for name in self.native if (op := self.operations[name]).op == "constant"]
        lines = [f"{_fixed(op)} = {_literal(op)}" for op in found]
        unpack = UNPACK.splitlines()[2:] if any("packed" in dict(op.kwargs) for op in found) else []
        return [*unpack, *([""] * 2 if unpack else []), *lines, "", ""] if lines else []

    def _prepare(self) -> list[str]:
        """Return the function that runs the steps ahead, and find what it returns.

        Weights that the calls change pass through it, so that their new values pack nothing again.
        """
        program = self.program
        passed = tuple(place for place, name in enumerate(program.weights) if name in self.changed)
        body = [f"{_several(program.weights)} = weights.values()"]
        body += [f"{name} = {weight}.shape[{d}]" for name, (weight, d) in program.weight_sizes.items()]
        lasting = [b for b in self._given() if b.name in program.weights and b.name not in self.changed]
        body += [line for b in lasting for line in self._checked(b)]
        made, used = dict[str, None](), {p for p, _ in program.symbols.values()}
        for step in program.steps:
            if step.name in program.ahead:
                body += self._step(step)
                made |= dict.fromkeys(written(step))
        for step in program.steps:
            if step.name not in program.ahead:
                reads = step.reads if isinstance(step, NativeCall) else touched(step)[0]
                used |= {program.buffer(name).position for name in reads if name in program.weights}
                self.held += [n for n in reads if n in made and n not in self.held]
        used |= {b.position for b in self._given() if b.name in self.changed}
        self.held += [n for n in program.weights if program.buffer(n).position in used]
        declared = [f"{PASSED_ON} = {passed}", "", ""] if passed else []
        return [*declared, *_function("prepare", ["weights"], [*body, f"return {_several(self.held)}"])]

    def _given(self) -> list[Buffer]:
        return [b for b in self.program.buffers if b.role == "argument"]

    def _checked(self, b: Buffer) -> list[str]:
        given = [f"{b.name}_given = {b.name}"] if b.name in self.changed else []
        return [
            *given, f"{b.name} = {b.name}.contiguous()",
            f"if {b.name}.shape != {_shape(b)} or {b.name}.dtype != torch.{b.dtype}:",
            f'    raise NotImplementedError("Unsupported: {b.name} has another shape or dtype")',
        ]  # fmt: skip

    def _guards(self) -> list[str]:
        lines = []
        if any(self.operations[name].op.startswith("mkldnn.") for name in self.native):
            lines.append("if not torch.backends.mkldnn.is_available():")
            lines.append('    raise NotImplementedError("Unsupported: torch has no oneDNN here")')
        for guard in self.program.guards:
            lines.append(f"if not ({guard}):")
            lines.append(f'    raise NotImplementedError("Unsupported: sizes must satisfy {guard}")')
        for position, value in self.program.scalars:
            lines.append(f"if scalar{position} != {value!r}:")
            lines.append('    raise NotImplementedError("Unsupported: another scalar argument")')
        return lines

    def _step(self, step: Step) -> list[str]:
        if isinstance(step, NativeCall):
            return self._panels(step) if step.fed else self._native(step)
        if step.name in self.ends:
            section, statement = self.ends[step.name]
            return [*self._allocated(section.writes), statement]
        if step.name in self.inside or self.fed & written(step):
            return []
        return [*self._allocated(touched(step)[1]), *self.launch(step)]

    def _panels(self, step: NativeCall) -> list[str]:
        """Print a product whose rows are computed right before it, a panel of them at a time."""
        program, op = self.program, self.operations[step.name]
        kernel = next(s for s in program.steps if isinstance(s, Kernel) and step.fed in written(s))
        panel, result = program.buffer(step.fed), program.buffer(step.writes)
        rows, each = led_by(panel.shape[0])
        row = [*([each] if each else []), *map(text_of, panel.shape[1:])]
        reads = dict.fromkeys(n for n in (*touched(kernel)[0], *step.reads) if n != step.fed)
        parts = {n: led_by(size) for n in reads for size in program.buffer(n).shape[:1]}
        cut = {n: by for n, (first, by) in parts.items() if first == rows}
        into = replace(op, op=op.op.replace(".default", ".out"), kwargs=(*op.kwargs, ("out", Ref(step.name))))
        itemsize = getattr(torch, panel.dtype).itemsize
        given = ", ".join([
            *(f"{n}[{_times('first', by)}:{_times('last', by)}]" for n, by in cut.items()),
            f"{panel.name}[:{_times('last - first', each)}]",
            f"{result.name}[{_times('first', each)}:{_times('last', each)}]",
        ])  # fmt: skip
        self.made |= {panel.name, result.name}
        return [
            f"def {step.writes}_rows({', '.join([*cut, panel.name, result.name, rows])}):",
            *(f"    {line}" for line in self.launch(kernel)), f"    {self._call(into)}",
            f"rows_at_once = max(1, {step.panel_bytes} // max(1, {itemsize} * {' * '.join(row)}))",
            f"{panel.name} = {self._empty(panel, _times('rows_at_once', each))}",
            f"{result.name} = {self._empty(result, _times(rows, each))}",
            f"for first in range(0, {rows}, rows_at_once):",
            f"    last = min(first + rows_at_once, {rows})",
            f"    {step.writes}_rows({given}, last - first)",
        ]  # fmt: skip

    def _empty(self, b: Buffer, rows: str) -> str:
        shape = ", ".join([rows, *map(text_of, b.shape[1:])])
        return f"torch.empty(({shape}), dtype=torch.{b.dtype}{self.placed})"

    def _allocated(self, writes: Sequence[str]) -> list[str]:
        lines = []
        for name in writes:
            if name not in self.made:
                lines.append(self._made_empty(self.program.buffer(name)))
                self.made.add(name)
        return lines

    def _made_empty(self, b: Buffer) -> str:
        return f"{b.name} = torch.empty({_shape(b)}, dtype=torch.{b.dtype}{self.placed})"

    def _native(self, step: NativeCall) -> list[str]:
        op = self.operations[step.name]
        self.made.add(step.writes)
        if op.op == "getitem":
            source, at = op.args
            assert isinstance(source, Ref)
            lines = []
            if f"{source.name}_all" not in self.made:
                self.made.add(f"{source.name}_all")
                lines.append(f"{_word(source.name)}_all = {self._call(self.operations[source.name])}")
            return [*lines, f"{step.writes} = {_word(source.name)}_all[{at}].contiguous()"]
        if op.op == "constant":
            own = ".clone()" if self.program.buffer(step.writes).role == "output" else ""
            return [f"{step.writes} = {_fixed(op)}{own if own or not self.device else f'.to({self.device})'}"]
        return [f"{step.writes} = {self._call(op)}.contiguous()"]

    def _call(self, op: Captured) -> str:
        if not op.op.startswith(("aten.", "mkldnn.")):
            raise NotCalled(op.op)
        if self.device and op.op == _CPU_ATTENTION:
            return self._attention(op)
        args = [self._argument(a) for a in op.args]
        args += [f"{name}={self._argument(value)}" for name, value in op.kwargs if name != "pin_memory"]
        return f"{'' if op.op.startswith('aten.') else 'torch.ops.'}{op.op}({', '.join(args)})"

    def _attention(self, op: Captured) -> str:
        """Print an attention that was captured on a CPU, for other devices: a tuple, like what it returns there."""
        given = {name: self._argument(value) for name, value in op.arguments().items()}
        named = [
            f"{name}={given[name]}"
            for name in ("attn_mask", "dropout_p", "is_causal", "scale")
            if name in given
        ]
        args = ", ".join([*(given[name] for name in ("query", "key", "value")), *named])
        return f"(aten.scaled_dot_product_attention.default({args}),)"

    def _argument(self, value: object) -> str:
        match value:
            case Ref(name):
                node = self.graph.values.get(name)
                if node is None:
                    raise NotCalled(f"{name} is several tensors")
                return self._buffer(node)
            case tuple():
                return "[" + ", ".join(map(self._argument, value)) + "]"
            case str() if value in _WORDS:
                return f"torch.{value}"
            case str():
                return repr(value)
            case bool() | None:
                return repr(value)
            case int():
                return text_of(value)
            case Real():
                return value.text
            case float():
                return repr(value) if math.isfinite(value) else f'float("{value}")'
            case _:
                raise NotCalled(f"an argument {value!r}")

    def _buffer(self, node: Node) -> str:
        names = self.program.names
        if node not in names and isinstance(node, Permute) and node.source in names:
            return f"{names[node.source]}.permute({', '.join(map(str, node.order))})"
        if node not in names:
            raise NotCalled(f"{node.name} is not stored")
        return names[node]


_CPU_ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu.default"
_WORDS = frozenset({
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "strided",
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
})  # fmt: skip
"""Strings for torch's constants."""


def _function(name: str, parameters: Sequence[str], body: Sequence[str]) -> list[str]:
    head = [f"def {name}({', '.join(parameters)}):", "    with torch.no_grad():"]
    return [*head, *(f"        {line}" for line in body)]


def _several(names: Sequence[str]) -> str:
    """Print a tuple, as a target or as a value."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def _times(count: str, each: str) -> str:
    """Print a multiple of a product of sizes."""
    if not each:
        return count
    return f"({count}) * {each}" if " " in count else f"{count} * {each}"


def _shape(b: Buffer) -> str:
    return f"({', '.join(map(text_of, b.shape))}{',' if len(b.shape) == 1 else ''})"


def _shape_checked(b: Buffer) -> list[str]:
    """Print the check that the prepared buffers have the call's sizes."""
    if all(text_of(s).isdigit() for s in b.shape):
        return []
    return [
        f"if {b.name}.shape != {_shape(b)}:",
        f'    raise NotImplementedError("Unsupported: {b.name} is of other sizes")',
    ]


def _fixed(op: Captured) -> str:
    """Name the tensor of a constant."""
    return f"{_word(op.name).upper()}_FIXED"


def _literal(op: Captured) -> str:
    """Print a constant.

    Raises:
        NotCalled: the capture did not keep its values.
    """
    kept = dict(op.kwargs)
    if "packed" in kept:
        return str(kept["packed"])
    values = kept.get("value")
    if values is None:
        raise NotCalled("a constant tensor whose values are not kept")
    return f"torch.tensor({values!r}, dtype=torch.{op.dtype}).reshape({op.shape!r})"


def _word(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)
