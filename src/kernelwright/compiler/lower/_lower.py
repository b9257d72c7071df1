"""Graph, decisions → Program: which nodes are stored, and one kernel for each group of them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..graph import (
    RESERVED,
    Constant,
    Contract,
    Graph,
    Input,
    Native,
    Node,
    Order,
    Permute,
    Random,
    Scatter,
    TypedLinear,
    Weight,
    ordered,
    sources_of,
)  # fmt: skip
from ..tile import (
    Buffer,
    Immovable,
    Kernel,
    Move,
    NativeCall,
    Program,
    Step,
    Tiling,
    moved,
    written,
)
from ._attention import scores_in
from ._block import NeedsStore, Unlowered, kind_of
from ._contraction import build_contraction
from ._decisions import Decisions
from ._gradients import build_gradients, gradients_with, kept_in, member_behind, member_of, next_of
from ._kernel import build_kernel, build_scatter
from ._loops import Arranged
from ._made import Made, captured_after, has_product, outputs_of, reads_of, repeated
from ._product import NotAttention, NotContraction
from ._segments import build_order
from ._typed import build_typed

_MOST_ROUNDS = 200
_TURNED = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default", "aten._grouped_mm.default")
"""Native operations that read a factor in either order of its axes."""


class NotLowered(Exception):
    """Some node has neither a form in tiles nor a native operation."""


def lower(graph: Graph, decisions: Decisions | None = None, arranged: Arranged | None = None) -> Program:
    """Lower a graph to a program.

    Every output is stored, and what native regions read and write. The rest is computed where it is used;
    what would be recomputed there many times is stored by an earlier kernel (`NeedsStore`), and
    what can be stored along the way (a mean with the normalised rows) is.

    Covers: all of the graph form but `Native` and `Random` nodes without a captured operation.

    Args:
        graph: What to lower.
        decisions: How to lower it; everything fused by default.
        arranged: Cache shared by schedules of the same graph.

    Raises:
        NotLowered: a node can neither be lowered nor run natively.

    Example:
        >>> from kernelwright.compiler.graph import read
        >>> from kernelwright.tasks import Problem, load_task
        >>> program = lower(read(Problem(load_task("examples/swiglu.py"))))
        >>> [step.name for step in program.steps], program.natives
        (['mul_1_kernel'], ())
    """
    native = frozenset[str]()
    chosen, kept = decisions or Decisions(), arranged or Arranged()
    for _ in range(_MOST_ROUNDS):
        lowering = _Lowering(graph, replace(chosen, native=chosen.native | native), kept)
        try:
            return _arranged(lowering.run(), chosen.moves)
        except _NeedsNative as needs:
            if needs.operation in native:
                raise NotLowered(f"operation {needs.operation} has no form in tiles") from None
            native |= {needs.operation}
    raise NotLowered("the lowering does not settle")


def _arranged(program: Program, moves: Sequence[Move]) -> Program:
    for move in moves:
        try:
            program = moved(program, move)
        except Immovable as error:
            raise NotLowered(str(error)) from None
    return program


class _NeedsNative(Exception):
    def __init__(self, operation: str) -> None:
        super().__init__(operation)
        self.operation = operation


class _Lowering:
    def __init__(self, graph: Graph, decisions: Decisions, arranged: Arranged) -> None:
        self.graph, self.decisions, self.arranged = graph, decisions, arranged
        self.outputs = outputs_of(graph)
        self.roots = (*self.outputs, *(new for _, new in graph.mutations))
        self.captured = {id(node): name for name, node in reversed(list(graph.values.items()))}
        """The first operation that computes a node; later ones only pass it on."""
        self.operations = {op.name: op for op in graph.operations}
        self.native: dict[Node, str] = {}
        for name in decisions.native:
            if name in graph.values:
                self.native[graph.values[name]] = name
        self.barriers: set[Node] = set()
        self.once = set[Node]()
        """Reductions that the first kernel of several stores."""
        self.names: dict[Node, str] = {}
        self.alive: list[Node] = []
        self.known_behind: dict[Node, frozenset[Node]] = {}
        self.rooms: dict[Node, Buffer] = {}

    def run(self) -> Program:
        self._find_natives()
        wanted = set(self.roots)
        wanted |= {n for n in self._nodes() if n.name in self.decisions.store and not isinstance(n, Input)}
        self.barriers |= {n for n in self._nodes() if n.name in self.decisions.ahead | self.decisions.before}
        wanted |= self.barriers
        if self.decisions.apart:
            wanted |= {n for n in self._nodes() if not isinstance(n, Input | Constant)}
        steps = self._steps(wanted)
        if again := repeated(steps, self._nodes()) - wanted:
            self.once = again
            wanted |= again
            self._name(wanted)
            steps = self._steps(wanted)
        return self._program(steps, wanted)

    def _nodes(self) -> list[Node]:
        """Return what must be computed: nothing behind a native region but what it reads."""
        if not self.alive:
            self.alive = list(ordered(self.roots, self._reads))
        return self.alive

    def _behind(self, node: Node) -> frozenset[Node]:
        """Return a node and all that it is computed from."""
        if node not in self.known_behind:
            self.known_behind[node] = frozenset(ordered([node]))
        return self.known_behind[node]

    def _reads(self, node: Node) -> tuple[Node, ...]:
        if node not in self.native:
            return sources_of(node)
        return tuple(
            self.graph.values[ref] for ref in reads_of(self.graph, self.operations, self.native[node])
        )

    def _find_natives(self) -> None:
        """Mark native nodes and store what they read; what a marked one hides needs nothing."""
        for _ in range(_MOST_ROUNDS):
            new = [n for n in self._nodes() if isinstance(n, Native | Random) and n not in self.native]
            if not new:
                break
            self.native |= {n: self._operation(n) for n in new}
            self.alive = []
        for node in self._nodes():
            if node in self.native:
                self.barriers.add(node)
                read = {self._source(node, r) for r in self._reads(node)}
                self.barriers |= {r for r in read if not isinstance(r, Input)}

    def _source(self, native: Node, read: Node) -> Node:
        """Return what is stored of what a native node reads: the library multiplies by a turned factor as it lies."""
        d, rank = self.decisions, len(read.shape)
        if not isinstance(read, Permute) or self.operations[self.native[native]].op not in _TURNED:
            return read
        turned = isinstance(read.source, Weight) or read.order == (*range(rank - 2), rank - 1, rank - 2)
        return read.source if turned and not (d.apart or read.name in d.store | d.ahead | d.before) else read

    def _operation(self, node: Node) -> str:
        name = self.captured.get(id(node))
        if name is None:
            raise NotLowered(f"{node.name} is native, and no captured operation gives it")
        return name

    def _native_for(self, node: Node) -> Exception:
        """Name the captured operation that gives the node, or the nearest after it."""
        name = captured_after(node, self.captured, self._nodes())
        return _NeedsNative(name) if name else NotLowered(f"{node.name} has no form in tiles")

    def _name(self, wanted: Collection[Node]) -> None:
        """Name buffers after their nodes."""
        taken = set(self.names.values()) | set(self.graph.symbols) | RESERVED
        for node in (*self.graph.inputs, *(n for n in self._nodes() if n in wanted)):
            if node not in self.names:
                name, count = node.name, 1
                while name in taken:
                    count += 1
                    name = f"{node.name}_b{count}"
                self.names[node] = name
                taken.add(name)

    def _steps(self, wanted: set[Node]) -> list[Step]:
        """Make the steps from the last stored node to the first.

        If a step needs another node stored (added to `wanted`), the steps since that node was passed are
        rebuilt: whole networks have hundreds of such nodes.
        """
        made: list[Made] = []
        late: set[Node] = set()
        left = self._in_order(wanted)
        self._name(wanted)
        while left:
            root = next_of(left, self._nodes(), self.decisions.tilings)
            try:
                steps, done = self._step(root, left)
            except NeedsStore as needs:
                node = needs.node
                if node in self.barriers:
                    raise self._native_for(node) from None
                again = next((i for i, m in enumerate(made) if node in m.touched), len(made))
                left = made[again].left if again < len(made) else left
                del made[again:]
                late.add(node)
                self.barriers.add(node)
                wanted.add(node)
                self._name(wanted)
                left = self._in_order({*left, *late}.difference(*(m.computed for m in made)))
                continue
            computed = done | {root}
            made.append(Made(left, steps, computed, self._touched(root, left, done)))
            left = [n for n in left if n not in computed]
        return [step for m in reversed(made) for step in m.steps]

    def _in_order(self, nodes: Collection[Node]) -> list[Node]:
        return [n for n in self._nodes() if n in nodes]

    def _touched(self, root: Node, left: list[Node], done: frozenset[Node]) -> frozenset[Node]:
        """Return what a step computes or reads, and what else it tried to compute."""
        alone = root in self.native or self.decisions.apart
        inside = {root, *done, *(() if alone else self._siblings(root, left))}
        found: set[Node] = set()
        waiting = list(inside)
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                if node in inside or node not in self.names:
                    waiting.extend(self._reads(node))
        return frozenset(found)

    def _step(self, root: Node, left: list[Node]) -> tuple[list[Step], frozenset[Node]]:
        near = {*left, *self.graph.inputs, *self.barriers}
        stored = {n: name for n, name in self.names.items() if n in near}
        try:
            return self._made(root, left, stored)
        except Unlowered:
            raise self._native_for(root) from None

    def _made(
        self, root: Node, left: list[Node], stored: dict[Node, str]
    ) -> tuple[list[Step], frozenset[Node]]:
        if root in self.native:
            name = self.native[root]
            reads = tuple(self.names[self._source(root, node)] for node in self._reads(root))
            call = NativeCall(name, reads, self.names[root], root, self.operations[name].op)
            return [call], frozenset([root])
        if isinstance(root, Order):
            if not {root.keys, root.offsets} <= stored.keys():
                raise NeedsStore(next(n for n in (root.keys, root.offsets) if n not in stored))
            kernel, self.rooms[root] = build_order(root, stored)
            return [kernel], frozenset([root])
        if isinstance(root, TypedLinear):
            tiling = self.decisions.tilings.get(root.name, Tiling("panels"))
            return [build_typed(root, stored, tiling)], frozenset([root])
        if isinstance(root, Scatter):
            return [self._scheduled(k) for k in build_scatter(root, stored)], frozenset([root])
        if (product := member_of(root, left, self.decisions.tilings)) is not None:
            return self._gradients(product, left, stored)
        others = [] if self.decisions.apart else left
        tilings = self.decisions.tilings
        fusable = [
            n for n in others
            if n is not root and n not in self.barriers and member_behind(n, tilings) is None
            and not self._awaited(n, root, left)
        ]  # fmt: skip
        if not self.decisions.loops and has_product(
            root, {n for n in stored if n is not root and n not in fusable}
        ):
            try:
                contraction, done = build_contraction(
                    root, stored, fusable, self._comment(root), self.decisions.tilings
                )
                return [contraction], done
            except (NotAttention, NotContraction) as error:
                if isinstance(error, NotAttention) and isinstance(root, Contract):
                    raise NotLowered(str(error)) from None
                return self._apart(root, stored, fusable)
        return self._traversal(root, stored, fusable, left)

    def _gradients(
        self, product: Contract, left: list[Node], stored: dict[Node, str]
    ) -> tuple[list[Step], frozenset[Node]]:
        try:
            kernel, done, rooms = build_gradients(gradients_with(self._nodes(), product), left, stored)
        except NotContraction as error:
            raise NotLowered(f"{product.name} has no gradients in one pass: {error}") from None
        self.rooms |= rooms
        return [kernel], done

    def _apart(
        self, root: Node, stored: dict[Node, str], fusable: list[Node]
    ) -> tuple[list[Step], frozenset[Node]]:
        """Store a product that cannot be fused into what follows it."""
        tilings = self.decisions.tilings
        scores = scores_in(self._nodes(), tilings) | kept_in(self._nodes(), tilings)
        for node in self._nodes():
            open_ = isinstance(node, Contract) and node not in self.barriers and node not in self.native
            if open_ and node is not root and node in self._behind(root) and node not in scores:
                raise NeedsStore(node)
        return self._traversal(root, stored, fusable, [root])

    def _scheduled(self, kernel: Kernel) -> Kernel:
        shapes = {name: node.shape for node, name in self.names.items()}
        return self.arranged.of(kernel, self.decisions.layout, shapes)

    def _traversal(
        self, root: Node, stored: dict[Node, str], fusable: list[Node], left: list[Node]
    ) -> tuple[list[Step], frozenset[Node]]:
        siblings = self._siblings(root, left) if not self.decisions.apart else []
        if siblings:
            try:
                kernel, done = self._kernel([root, *siblings], stored, fusable)
                return [self._scheduled(kernel)], done
            except NeedsStore:
                pass
        kernel, done = self._kernel([root], stored, fusable)
        return [self._scheduled(kernel)], done

    def _kernel(
        self, roots: list[Node], stored: dict[Node, str], fusable: list[Node]
    ) -> tuple[Kernel, frozenset[Node]]:
        return build_kernel(roots, stored, fusable, self._comment(roots[0]), self.decisions.accumulate)

    def _siblings(self, root: Node, left: list[Node]) -> list[Node]:
        """Return stored nodes of the root's shape that do not depend on each other and read the same."""
        if root.name in self.decisions.ahead:
            return []
        behind = self._behind(root)
        mine = {n for n in behind if isinstance(n, Input)}
        return [
            n for n in left
            if n is not root and n not in self.barriers and n not in behind and n not in self.native
            and [str(s) for s in n.shape] == [str(s) for s in root.shape] and not isinstance(n, Scatter)
            and root not in self._behind(n) and not mine.isdisjoint(self._behind(n))
            and not self._awaited(n, root, left)
        ]  # fmt: skip

    def _awaited(self, node: Node, root: Node, left: list[Node]) -> bool:
        """Tell whether an earlier kernel than the root's needs a reduction that only the first one computes."""
        return node in self.once and any(node in self._behind(n) for n in left if n not in (node, root))

    def _comment(self, root: Node) -> str:
        sizes = ", ".join(map(str, root.shape))
        return f"{self.names[root]}: {root.dtype}[{sizes}]"

    def _program(self, steps: list[Step], wanted: set[Node]) -> Program:
        given = [*(n.position for n in self.graph.inputs), *(p for p, _ in self.graph.scalars)]
        first = 1 + max(given, default=-1)
        buffers = [Buffer(self.names[n], n.dtype, n.shape, "argument", n.position) for n in self.graph.inputs]
        for node in (n for n in self._nodes() if n in wanted):
            kind_of(node.dtype) if node not in self.native else None
            if any(node is o for o in self.outputs):
                place = next(i for i, o in enumerate(self.outputs) if o is node)
                buffers.append(Buffer(self.names[node], node.dtype, node.shape, "output", first + place))
            else:
                buffers.append(Buffer(self.names[node], node.dtype, node.shape, "temporary"))
        buffers += self.rooms.values()
        name = self.names[self.outputs[0]] if self.outputs else "nothing"
        return Program(
            name, tuple(buffers), tuple(steps), self.graph.symbols, self.graph.scalars, dict(self.names),
            self.graph.guards, tuple((self.names[old], self.names[new]) for old, new in self.graph.mutations),
            tuple(self.names[n] for n in self.graph.inputs if isinstance(n, Weight)), self._ahead(steps),
        )  # fmt: skip

    def _ahead(self, steps: Sequence[Step]) -> frozenset[str]:
        """Name the steps that depend on weights only, if some value is precomputed."""
        if not self.decisions.ahead:
            return frozenset()
        lasting = {self.names[n] for n in self.graph.lasting if n in self.names and n not in self.outputs}
        return frozenset(step.name for step in steps if written(step) <= lasting)


__all__ = ["Decisions", "Kernel", "NotLowered", "lower"]
