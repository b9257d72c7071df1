"""Accumulators of a launch: initialised, folded by lanes or sequentially, scanned, merged across programs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...tile import MONOIDS, Begin, Expression, Statement, Update, Variable, part_kind, statements
from ._blocks import NONE, Dims, Scope
from ._dialect import bare
from ._folds import SCANS, SIMPLE, folded
from ._launches import Launch

PROGRAMS = 1024
"""Programs that fold a whole tensor, at most: their parts are one block of the next launch."""


@dataclass(frozen=True)
class Lanes:
    """The loop that lanes run over."""

    kept: bool
    """Whether one block holds all of it: nothing is read twice."""
    mask: str
    scan: bool = False


def part_buffer(name: str, part: str) -> str:
    """Name the memory that holds a part of every program's state."""
    return f"{name}_{part}_of"


@dataclass
class States:
    """What a launch folds into, and how it is printed."""

    scope: Scope
    launch: Launch
    block: int
    """Elements that a program has at once."""
    constants: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Compile-time argument → its text on the host, its value at the declared sizes."""
    begun: dict[str, Begin] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Accumulators that nothing was folded into."""
    lanes: Lanes | None = None

    @property
    def rank(self) -> int:
        """The dimensions of a tile."""
        return 2 if self.launch.way == "rows" else 1

    @property
    def state(self) -> str:
        """The shape of an accumulator."""
        return {"points": "[BLOCK]", "rows": "[ROWS, 1]", "single": "[]"}[self.launch.way]

    @property
    def state_dims(self) -> Dims:
        """The dimensions of an accumulator."""
        return NONE if self.launch.way == "single" else frozenset({0})

    @property
    def axis(self) -> str:
        """How lanes are folded into the state."""
        return "axis=1, keep_dims=True" if self.rank == 2 else "axis=0"

    # Accumulators --------------------------------------------------------------------------------------

    def _parts(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the parts of a state: what they compute in and start as."""
        begin, d = self.begun[name], self.scope.dialect
        return {
            part: (d.type(part_kind(part, begin.kind)), d.number(start, part_kind(part, begin.kind)))
            for part, start in MONOIDS[begin.monoid].parts.items()
        }

    def _initial(self, name: str, shape: str = "", suffix: str = "") -> list[str]:
        self.fresh.discard(name)
        return [
            f"{name}{suffix or f'_{part}'} = tl.full({shape or self.state}, {start}, {kind})"
            for part, (kind, start) in self._parts(name).items()
        ]

    def _started(self, body: Sequence[Statement]) -> list[str]:
        """Start the accumulators that a loop folds into."""
        folded_here = dict.fromkeys(s.name for s in statements(tuple(body)) if isinstance(s, Update))
        return [line for name in folded_here if name in self.fresh for line in self._initial(name)]

    def _variables(self, name: str, suffix: str = "") -> dict[str, Expression]:
        begin = self.begun[name]
        return {
            p: Variable(f"{name}_{p}{suffix}", part_kind(p, begin.kind)) for p in MONOIDS[begin.monoid].parts
        }

    def _update(self, s: Update) -> list[str]:
        if self.lanes is not None:
            return self._lanes_scan(s) if self.lanes.scan else self._lanes_update(s)
        start = self._initial(s.name) if s.name in self.fresh else []
        begin, state = self.begun[s.name], self._variables(s.name)
        value = Variable(f"{s.name}_x", begin.kind)
        self.scope.dims[value.name] = self.scope.dims_of(s.value)
        lone = len(state) == 1
        text = self.scope.to(s.value, begin.kind)
        head = [] if lone else [f"{value.name} = {bare(text)}"]
        new = MONOIDS[begin.monoid].update(state, value, s.position)
        if lone:
            form = SIMPLE[begin.monoid][0].format(
                f"{s.name}_value", bare(text) if begin.monoid in ("max", "min") else text
            )
            return [*start, f"{s.name}_value = {self._held(s.name, bare(form), f'{s.name}_value')}"]
        texts = [
            self._held(s.name, bare(self.scope.to(e, part_kind(p, begin.kind))), f"{s.name}_{p}")
            for p, e in new.items()
        ]
        return [*start, *head, f"{', '.join(f'{s.name}_{p}' for p in new)} = {', '.join(texts)}"]

    def _held(self, name: str, text: str, old: str) -> str:
        """Keep the old state where a block has no element, since folding over the block includes all lanes."""
        if name not in {b.name for b in self.launch.folds}:
            return text
        return f"tl.where({self.scope.masks[0]}, {text}, {old})"

    def _element(self, s: Update) -> str:
        """Print what is folded, neutral where a block has no element."""
        begin = self.begun[s.name]
        start = next(iter(self._parts(s.name).values()))[1]
        neutral = "0.0" if begin.monoid == "variance" else start
        assert self.lanes is not None
        return f"tl.where({self.lanes.mask}, {bare(self.scope.to(s.value, begin.kind))}, {neutral})"

    def _lanes_update(self, s: Update) -> list[str]:
        begin, text = self.begun[s.name], self._element(s)
        assert self.lanes is not None
        if begin.monoid in SIMPLE:
            if not self.lanes.kept:
                return [f"{s.name}_lanes = {bare(SIMPLE[begin.monoid][0].format(f'{s.name}_lanes', text))}"]
            return self._entered(s.name, {"value": text})
        x, mask = f"{s.name}_x", self.lanes.mask
        if begin.monoid == "variance":
            parts = {"count": f"tl.where({mask}, 1.0, 0.0)", "mean": x}
        elif begin.monoid in ("argmax", "argmin"):
            index = f"{s.name}_at"
            at = f"{index} = tl.where({mask}, {bare(self.scope.text(s.position))}, -1).to(tl.int64)"
            return [f"{x} = {text}", at, *self._entered(s.name, {"value": x, "index": index})]
        else:
            parts = {"top": x}
        count = f"{s.name}_here"
        if "count" in parts:
            return [
                f"{x} = {text}",
                f"{count} = {parts['count']}",
                *self._entered(s.name, {**parts, "count": count}),
            ]
        return [f"{x} = {text}", *self._entered(s.name, parts)]

    def _entered(self, name: str, parts: dict[str, str]) -> list[str]:
        """Fold a tile into the state; the first is the state."""
        begin = self.begun[name]
        if name in self.fresh:
            self.fresh.discard(name)
            return folded(begin.monoid, name, parts, self.axis)
        late = f"{name}_late"
        lines = folded(begin.monoid, late, parts, self.axis)
        names = {p: f"{late}_{p}" for p in MONOIDS[begin.monoid].parts}
        return [*lines, *self._merged(name, names)]

    def _merged(self, name: str, late: dict[str, str]) -> list[str]:
        begin = self.begun[name]
        later: dict[str, Expression] = {
            p: Variable(text, part_kind(p, begin.kind)) for p, text in late.items()
        }
        for text in late.values():
            self.scope.dims[text] = self.state_dims
        if begin.monoid in SIMPLE:
            return [f"{name}_value = {bare(SIMPLE[begin.monoid][0].format(f'{name}_value', late['value']))}"]
        new = MONOIDS[begin.monoid].merge(self._variables(name), later)
        texts = [bare(self.scope.to(e, part_kind(p, begin.kind))) for p, e in new.items()]
        return [f"{', '.join(f'{name}_{p}' for p in new)} = {', '.join(texts)}"]

    def _lanes_scan(self, s: Update) -> list[str]:
        """Print the partial results of a tile, and carry its last one on."""
        begin, x, here = self.begun[s.name], f"{s.name}_x", f"{s.name}_here"
        fresh = s.name in self.fresh
        scan = SCANS[begin.monoid].format(x, axis=self.axis.partition(",")[0])
        joined = scan if fresh else SIMPLE[begin.monoid][0].format(f"{s.name}_value", scan)
        dims = frozenset(range(self.rank))
        self.scope.scanned[s.name] = (here, dims)
        return [f"{x} = {self._element(s)}", f"{here} = {bare(joined)}", *self._entered(s.name, {"value": x})]

    # Across programs -----------------------------------------------------------------------------------

    def _left(self, b: Begin) -> list[str]:
        """Fold the block and leave the part of this program."""
        parts = {p: f"{b.name}_{p}" for p in MONOIDS[b.monoid].parts}
        flat, lines = parts, list[str]()
        if self.launch.way == "rows":
            flat = {p: f"tl.reshape({text}, [ROWS])" for p, text in parts.items()}
        own = f"{b.name}_part"
        lines += folded(b.monoid, own, flat, "axis=0")
        return [*lines, *(f"tl.store({part_buffer(b.name, p)} + tl.program_id(0), {own}_{p})" for p in parts)]

    def _joined(self, b: Begin) -> list[str]:
        """Join what the programs of an earlier launch left."""
        self.begun[b.name] = b
        self.constants["PROGRAMS"] = (str(PROGRAMS), PROGRAMS)
        names, lines = {}, ["part = tl.arange(0, PROGRAMS)"]
        for p, (_, start) in self._parts(b.name).items():
            names[p] = f"{b.name}_{p}_parts"
            lines.append(
                f"{names[p]} = tl.load({part_buffer(b.name, p)} + part, mask=part < programs, other={start})"
            )
        return [*lines, *folded(b.monoid, b.name, names, "axis=0")]
