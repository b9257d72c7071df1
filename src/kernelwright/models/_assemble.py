"""Capture, accepted kernels → Candidate: the model's graph as Python, with kernels in place of regions.

What no kernel computes stays as torch's own operators. What is the same in every call is computed once, when the file
is loaded. Outside the captured shapes the function declines, and the native model runs.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import fx

from ..errors import InputError
from ..records import Candidate, SourceFile, Task
from ..tasks.capture import UNPACK
from ._operators import imports_of
from ._regions import Region, operator_name
from ._task import packed
from ._timing import Timed
from .pieces import Capture, Printed, Unprintable, expression, listed

_ENTRY = "patched.py"
_CPP = (".cpp", ".cc", ".cxx")
_WRITTEN_IN = ("cpp", "triton", "torch")
"""The languages of kernels that can be part of a model; a model is in the first that one of its kernels is in."""
_EXPORT = re.compile(r"\b(KW_KERNEL|TVM_FFI_DLL_EXPORT_TYPED_FUNC)(\s*\(\s*)(\w+)")
_OWN_VECTORS = re.compile(r"\bnamespace kw\s*\{")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Accepted:
    """A kernel that was accepted for a region."""

    region: Region
    """What it computes."""
    task: Task
    """The region's task, which it was accepted on."""
    candidate: Candidate
    """The kernel."""


def assemble(
    capture: Capture, timed: Timed, kernels: Sequence[Accepted], state: Sequence[str], names: dict[str, str]
) -> Candidate:
    """Return the model with kernels in place of regions, as a candidate for the model's task.

    Args:
        capture: The model's graph.
        timed: Shapes and layouts of its values.
        kernels: What was accepted, for regions that do not overlap.
        state: Names of the task's state, in the order in which it is passed.
        names: Weight's node → its name in the task's state.

    Raises:
        InputError: kernels cannot be in one candidate: flags, exports or files of the same name differ.
        Unprintable: an operator between them, or a constant, cannot be written into a file.
    """
    parts = [Part(number, accepted) for number, accepted in enumerate(kernels)]
    return with_parts(_Body(capture, timed, parts, state, names).text(), parts)


def with_parts(text: str, parts: Sequence["Part"], files: Sequence[SourceFile] = ()) -> Candidate:
    """Return a candidate of a file that calls kernels, their files, and others.

    Raises:
        InputError: files of the same name differ.
    """
    sources: dict[str, SourceFile] = {}
    for source in (
        SourceFile(path=_ENTRY, text=text),
        *files,
        *(s for part in parts for s in part.sources()),
    ):
        known = sources.setdefault(source.path, source)
        if known.text != source.text:
            raise InputError(f"two kernels or files of the model are called {source.path!r}, and differ")
    labels = ", ".join(part.label for part in parts)
    spoken = {part.language for part in parts}
    flags = tuple(sorted({flag for part in parts for flag in part.flags}))
    return Candidate(
        sources=tuple(sources.values()), language=next((n for n in _WRITTEN_IN if n in spoken), "torch"),
        entry=f"{_ENTRY}:run", style="function", flags=flags, proposer="models",
        reason=f"kernels for {labels or 'nothing'}",
    )  # fmt: skip


class Part:
    """One region's kernel inside the model's candidate."""

    def __init__(self, number: int, accepted: Accepted) -> None:
        self.number, self.accepted = number, accepted
        self.label = accepted.region.label
        candidate = accepted.candidate
        self.language = candidate.language
        self.compiled = candidate.language == "cpp"
        self.flags = candidate.flags if self.compiled else ()
        if candidate.language not in _WRITTEN_IN:
            raise InputError(f"{self.label}: a kernel in {candidate.language} cannot be part of a model yet")
        if unusual := [f for f in self.flags if not f.startswith("-W")]:
            raise InputError(
                f"{self.label}: its compiler flag {unusual[0]!r} would hold for other kernels too"
            )
        if candidate.language == "torch" and candidate.flags:
            raise InputError(
                f"{self.label}: a kernel under {candidate.flags[0]} cannot be part of a model yet"
            )
        self._python = [s for s in candidate.sources if s.path.endswith(".py")]
        if len(self._python) > 1 or (candidate.style != "destination" and not self._python):
            raise InputError(f"{self.label}: expected one Python file in its kernel, got {len(self._python)}")
        self.packs = bool(self._python) and "def prepare(weights)" in self._python[0].text

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of its weights in its task, in the order in which it takes them."""
        return tuple(spec.name for spec in self.accepted.task.workloads[0].state)

    def sources(self) -> Iterator[SourceFile]:
        """Yield its files under names of their own; headers keep theirs."""
        for source in self.accepted.candidate.sources:
            if source.path.endswith(".py"):
                yield SourceFile(path=f"part{self.number}.py", text=source.text)
            elif source.path.endswith(_CPP):
                yield SourceFile(
                    path=f"part{self.number}_{source.path.rpartition('/')[2]}",
                    text=self._renamed(source.text),
                )
            else:
                yield source

    def definition(self) -> list[str]:
        """Return the lines that define its function, `_part0(*inputs, *weights)`."""
        n, candidate = self.number, self.accepted.candidate
        symbol = candidate.entry.rpartition(":")[2]
        if candidate.style != "destination":
            given = f"kernels=_Renamed(kernels, 'part{n}_')" if self.compiled else ""
            return [
                f"_module{n} = _loaded('part{n}.py'{', ' + given if given else ''})",
                f"_part{n} = _module{n}.{symbol}",
            ]
        workload = self.accepted.task.workloads[0]
        taken = [
            *(f"a{i}" for i in range(len(workload.arguments))),
            *(f"s{i}" for i in range(len(workload.state))),
        ]
        made = [f"o{i}" for i in range(len(workload.outputs))]
        outputs = [
            f"    {name} = torch.empty({spec.shape}, dtype=torch.{spec.dtype})"
            for name, spec in zip(made, workload.outputs, strict=True)
        ]
        kernel = f"_kernel{n} = kernels.part{n}_{symbol}"
        call = f"    _kernel{n}({', '.join((*taken, *made))})"
        return [kernel, "", "", f"def _part{n}({', '.join(taken)}):", *outputs, call,
                f"    return {listed(made) if len(made) > 1 else made[0]}"]  # fmt: skip

    def _renamed(self, text: str) -> str:
        """Give exports a prefix and everything a namespace, so that parts do not meet in one library."""
        renamed = _EXPORT.sub(rf"\1\2part{self.number}_\3", text)
        includes = list(_INCLUDE.finditer(renamed))
        end = includes[-1].end() if includes else 0
        name, body = f"part{self.number}", renamed[end:]
        if _OWN_VECTORS.search(
            body
        ):  # what it adds to our headers' namespace lies in one of that name within its own
            body = f"\n\nnamespace kw {{ using namespace ::kw; }}{body}"
        return f"{renamed[:end]}\n\nnamespace {name} {{\n{body}\n}}  // namespace {name}\n"


class _Body:
    """Prints the model's function."""

    def __init__(
        self,
        capture: Capture,
        timed: Timed,
        parts: Sequence[Part],
        state: Sequence[str],
        names: dict[str, str],
    ) -> None:
        self._capture, self._timed, self._parts, self._state = capture, timed, parts, state
        self._names = {node: f"a{i}" for i, node in enumerate(capture.inputs)}
        places = {name: i for i, name in enumerate(state)}
        self._names |= {node: f"s{places[names[node]]}" for node in capture.weights}
        self._at: dict[int, tuple[Part, Printed, int, int]] = {}
        for part in parts:
            for use, unit in enumerate(part.accepted.region.units):
                text = part.accepted.region.texts[use]
                self._at[unit.start] = (part, text, unit.stop, len(self._at))
        self._operators: dict[str, str] = {}

    def text(self) -> str:
        """Return the file."""
        fixed = self._fixed()
        lines = self._lines()
        arguments = [f"a{i}" for i in range(len(self._capture.inputs))]
        state = [f"s{i}" for i in range(len(self._state))]
        packs = any(part.packs for part in self._parts)
        head = self._guard()
        if packs:
            taken = [*arguments, "packed"]
            head += [f"    {listed(state)} = packed[0]", "    held = packed[1]"]
        else:
            taken = [*arguments, *state]
        definitions = [line for part in self._parts for line in ("", "", *part.definition())]
        operators = [f"{name} = torch.ops.{target}" for target, name in self._operators.items()]
        prepare = self._prepare(state) if packs else []
        return "\n".join([
            *_HEAD.splitlines(), *imports_of(self._capture.nodes), *LOADING.splitlines(), *definitions,
            *UNPACK.splitlines(), "", "", *operators, *fixed, *prepare, "", "",
            f"def run({', '.join(taken)}):", *head, *lines, "",
        ])  # fmt: skip

    def _fixed(self) -> list[str]:
        """Return lines that compute what is the same in every call, once."""
        lines = []
        needed = self._needed_fixed()
        there = "" if self._timed.place == "cpu" else f".to({self._timed.place!r})"
        for number, (name, value) in enumerate(self._capture.constants.items()):
            if name in needed:
                self._names[name] = f"c{number}"
                lines.append(f"c{number} = {packed(value)}{there}")
        for number, node in enumerate(self._capture.nodes):
            if node.name in needed:
                self._names[node.name] = f"f{number}"
                lines.append(f"f{number} = {self._expression(node)}")
        return lines

    def _needed_fixed(self) -> set[str]:
        fixed = {*self._capture.constants, *self._capture.folded}
        last = {*self._capture.outputs, *(new for _, new in self._capture.mutations)} & fixed
        needed = last | {
            s.name
            for n in self._capture.nodes
            if n.name not in fixed
            for s in n.all_input_nodes
            if s.name in fixed
        }
        for node in reversed(self._capture.nodes):
            if node.name in needed:
                needed |= {s.name for s in node.all_input_nodes}
        return needed

    def _lines(self) -> list[str]:
        """Return the function's lines after its guard."""
        lines: list[str] = []
        place = 0
        while place < len(self._capture.nodes):
            node = self._capture.nodes[place]
            if place in self._at:
                part, text, stop, use = self._at[place]
                lines.append(f"    {self._call(part, text, use)}")
                place = stop
                continue
            place += 1
            if node.name in self._capture.folded:
                continue
            if operator_name(node) == "clone" and not self._lasts(node.name):
                self._names[node.name] = self._names[node.all_input_nodes[0].name]
                continue
            self._names[node.name] = f"v{place}"
            lines.append(f"    v{place} = {self._short(self._expression(node))}")
        lines += [f"    {self._name(old)}.copy_({self._name(new)})" for old, new in self._capture.mutations]
        given = {
            *self._capture.inputs,
            *self._capture.weights,
            *self._capture.constants,
            *self._capture.folded,
        }
        results = [f"{self._name(o)}.clone()" if o in given - set(self._capture.inputs) else self._name(o)
                   for o in self._capture.outputs]  # fmt: skip
        lines.append(f"    return {listed(results) if len(results) > 1 else results[0]}")
        return lines

    def _call(self, part: Part, text: Printed, use: int) -> str:
        """Return the line that calls a kernel for one use of its region."""
        for number, name in enumerate(text.outputs):
            self._names[name] = f"r{use}_{number}"
        inputs = [self._contiguous(name) for name in text.inputs]
        by_name = {f"w{i}": node for i, node in enumerate(text.weights)}
        weights = [self._contiguous(by_name[name]) for name in part.weights]
        taken = [*inputs, f"held[{use}]"] if part.packs else [*inputs, *weights]
        left = (
            listed([self._names[n] for n in text.outputs])
            if len(text.outputs) > 1
            else self._names[text.outputs[0]]
        )
        return f"{left} = _part{part.number}({', '.join(taken)})"

    def _prepare(self, state: Sequence[str]) -> list[str]:
        """Return the lines of `prepare`, which packs the weights of every use whose kernel wants that."""
        lines = ["", "", "def prepare(weights):", f"    {listed(state)} = weights.values()", "    held = {}"]
        for part, text, _, use in self._at.values():
            if part.packs:
                by_name = {f"w{i}": node for i, node in enumerate(text.weights)}
                given = ", ".join(f"{name!r}: {self._names[by_name[name]]}" for name in part.weights)
                lines.append(f"    held[{use}] = _module{part.number}.prepare({{{given}}})")
        return [*lines, f"    return ({listed(state)}), held"]

    def _guard(self) -> list[str]:
        lines = []
        for number, name in enumerate(self._capture.inputs):
            fact, held = self._timed.facts[name], f"a{number}"
            unlike = f"{held}.shape != {fact.shape} or {held}.dtype is not {fact.dtype}"
            lines.append(f"    if {unlike} or not {held}.is_contiguous():")
            lines.append(
                f'        raise NotImplementedError("Unsupported: input {number} is not as it was captured")'
            )
        return lines

    def _contiguous(self, name: str) -> str:
        fact = self._timed.facts.get(name)
        return (
            self._name(name) if fact is not None and fact.contiguous else f"{self._name(name)}.contiguous()"
        )

    def _lasts(self, name: str) -> bool:
        """Tell whether a value is a result, or what an argument is set to, so that it needs memory of its own."""
        return name in self._capture.outputs or any(name == new for _, new in self._capture.mutations)

    def _name(self, node: str) -> str:
        if node not in self._names:
            raise Unprintable(f"{node} is used where a kernel computed it as part of something else")
        return self._names[node]

    def _expression(self, node: fx.Node) -> str:
        return self._timed.placed(expression(node, self._name), f"torch.device({self._timed.place!r})")

    def _short(self, call: str) -> str:
        """Give an operator a name of the module's, which is found faster than three attributes."""
        match = re.match(r"torch\.ops\.([\w.]+)\(", call)
        if match is None:
            return call
        short = self._operators.setdefault(match[1], "_" + match[1].removeprefix("aten.").replace(".", "_"))
        return f"{short}({call[match.end() :]}"


_HEAD = '''"""A model with kernels in place of some of its parts."""

import importlib.util
from pathlib import Path

import torch
'''
LOADING = """

def _loaded(name, **given):
    spec = importlib.util.spec_from_file_location(f"{__name__}_{name[:-3]}", Path(__file__).parent / name)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(given)
    spec.loader.exec_module(module)
    return module


class _Renamed:
    def __init__(self, library, prefix):
        self._library, self._prefix = library, prefix

    def __getattr__(self, name):
        found = getattr(self._library, self._prefix + name)
        setattr(self, name, found)
        return found"""
