"""A function's statements → basic blocks in an order in which lanes that part can meet again.

The order puts the blocks of a loop together and what follows a loop behind it (Bourdoncle's weak topological
order, from strongly connected components, recursively). Warps always run the group of lanes that stands first
in it, so groups join where their paths do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ._errors import PtxError
from ._ir import Function, Instruction, Label, Register, Symbol, registers_in

BRANCHES = {"bra", "brx", "ret", "exit", "trap"}


@dataclass
class Block:
    """Instructions without a branch in or out but at the ends; `index` is its place in the order."""

    instructions: list[Instruction] = field(default_factory=list)
    after: "Block | None" = None
    """Where the lanes go that do not branch; none where all do."""
    targets: list["Block"] = field(default_factory=list)
    """Where the branch at the end leads."""
    index: int = -1
    meets: Instruction | None = None
    """The instruction at which lanes wait for each other before the block begins."""
    spins: bool = False
    """Whether it lies in a loop that waits for other threads."""

    @property
    def followers(self) -> list["Block"]:
        """Return the blocks that may come next."""
        return [*self.targets, *([self.after] if self.after else [])]


def blocks_of(function: Function, meets: Callable[[Instruction], str | None]) -> list[Block]:
    """Return the reachable blocks in order, the entry first.

    `meets` names the lanes that must all come to an instruction: a key that is equal for equal lanes, `all`
    for all of the warp, or none.

    Raises:
        PtxError: where a branch leads to no label.
    """
    first, labels = _cut(function, meets)
    _link(function, first, labels)
    order: list[Block] = []
    _arrange([first, *(b for b in _reachable(first) if b is not first)], first, order)
    for index, block in enumerate(order):
        block.index = index
    return order


def _cut(function: Function, meets: Callable[[Instruction], str | None]) -> tuple[Block, dict[str, Block]]:
    first = current = Block()
    labels: dict[str, Block] = {}
    met: set[str] = set()

    def begin() -> Block:
        new = Block()
        if not _leaves(current):
            current.after = new
        met.clear()
        return new

    for statement in _plain(function, meets):
        if isinstance(statement, Label):
            if current.instructions or current.meets:
                current = begin()
            elif statement.name in labels:
                raise PtxError(f"the label {statement.name!r} stands twice in {function.name!r}")
            labels[statement.name] = current
            continue
        if current.instructions and current.instructions[-1].opcode in BRANCHES:
            current = begin()
        key = meets(statement)
        if key is not None and key not in met and "all" not in met:
            if current.instructions:
                current = begin()
            met.add(key)
            current.meets = statement
        current.instructions.append(statement)
    if not current.instructions or current.instructions[-1].opcode not in BRANCHES:
        current.instructions.append(Instruction("ret", (), (), None, function.line))
    return first, labels


def _plain(function: Function, meets: Callable[[Instruction], str | None]) -> Iterator[Instruction | Label]:
    """Turn guarded calls and warp-wide instructions into a branch around them."""
    for count, statement in enumerate(function.body):
        if (
            isinstance(statement, Label)
            or statement.guard is None
            or (statement.opcode != "call" and meets(statement) is None)
        ):
            yield statement
            continue
        guard, name = statement.guard, f"skip.{count}"
        skip = Register(guard.name, not guard.negated)
        yield Instruction("bra", (), (Symbol(name),), skip, statement.line, statement.source)
        yield Instruction(
            statement.opcode, statement.modifiers, statement.operands, None, statement.line, statement.source
        )
        yield Label(name)


def _leaves(block: Block) -> bool:
    """Tell whether no lane goes on behind the block."""
    last = block.instructions[-1] if block.instructions else None
    return last is not None and last.opcode in BRANCHES and last.guard is None


def _link(function: Function, first: Block, labels: dict[str, Block]) -> None:
    seen, left = {id(first)}, [first]
    while left:
        block = left.pop()
        last = block.instructions[-1] if block.instructions else None
        if last is not None and last.opcode in {"bra", "brx"}:
            for name in _names(function, last):
                if name not in labels:
                    raise PtxError(f"line {last.line}: there is no label {name!r} in {function.name!r}")
                block.targets.append(labels[name])
        if block.after is None and not (last is not None and _leaves(block)):
            block.after = _end(function)
        for follower in block.followers:
            if id(follower) not in seen:
                seen.add(id(follower))
                left.append(follower)


def _end(function: Function) -> Block:
    return Block([Instruction("ret", (), (), None, function.line)])


def _names(function: Function, branch: Instruction) -> list[str]:
    last = branch.operands[-1]
    if not isinstance(last, Symbol):
        raise PtxError(f"line {branch.line}: {branch.name} leads to no label")
    if branch.opcode == "bra":
        return [last.name]
    if last.name not in function.tables:
        raise PtxError(f"line {branch.line}: there is no list of branch targets {last.name!r}")
    return function.tables[last.name]


def _reachable(first: Block) -> list[Block]:
    """Return blocks in reverse post-order."""
    found: list[Block] = []
    seen = {id(first)}
    stack = [(first, iter(first.followers))]
    while stack:
        block, followers = stack[-1]
        for follower in followers:
            if id(follower) not in seen:
                seen.add(id(follower))
                stack.append((follower, iter(follower.followers)))
                break
        else:
            stack.pop()
            found.append(block)
    return found[::-1]


def _arrange(blocks: list[Block], head: Block, order: list[Block]) -> None:
    """Append blocks component by component, the head of each loop before its body."""
    for component in _components(blocks, head):
        if len(component) == 1:
            order.append(component[0])
            continue
        inside = {id(b) for b in component}
        order.append(component[0])
        rest = [b for b in component[1:] if id(b) in inside]
        _arrange(rest, component[0], order)


def _components(blocks: list[Block], head: Block) -> list[list[Block]]:
    """Return strongly connected components in topological order (Tarjan's, without recursion).

    Within a component the blocks keep their order, so the first is the one that the component is entered by.
    """
    allowed = {id(b): i for i, b in enumerate(blocks)}
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[Block] = []
    found: list[list[Block]] = []
    for root in (head, *blocks):
        if id(root) not in allowed or id(root) in index:
            continue
        work = [(root, iter(root.followers))]
        index[id(root)] = low[id(root)] = len(index)
        stack.append(root)
        on_stack.add(id(root))
        while work:
            block, followers = work[-1]
            for follower in followers:
                key = id(follower)
                if key not in allowed:
                    continue
                if key not in index:
                    index[key] = low[key] = len(index)
                    stack.append(follower)
                    on_stack.add(key)
                    work.append((follower, iter(follower.followers)))
                    break
                if key in on_stack:
                    low[id(block)] = min(low[id(block)], index[key])
            else:
                work.pop()
                if work:
                    low[id(work[-1][0])] = min(low[id(work[-1][0])], low[id(block)])
                if low[id(block)] == index[id(block)]:
                    found.append(_pop(stack, on_stack, block, allowed))
    return found[::-1]


def _pop(stack: list[Block], on_stack: set[int], root: Block, place: dict[int, int]) -> list[Block]:
    component = []
    while True:
        block = stack.pop()
        on_stack.discard(id(block))
        component.append(block)
        if block is root:
            break
    return sorted(component, key=lambda b: place[id(b)])


def loops_of(blocks: list[Block]) -> list[list[Block]]:
    """Return the strongly connected components that are loops, outer ones only."""
    found = [c for c in _components(blocks, blocks[0]) if len(c) > 1 or c[0] in c[0].followers]
    return found


def temporaries(blocks: list[Block], sources: Callable[[Instruction], set[str]],
                results: Callable[[Instruction], set[str]]) -> set[str]:  # fmt: skip
    """Return registers that every block writes before it reads them: their lanes need no mask."""
    written: set[str] = set()
    exposed: set[str] = set()
    for block in blocks:
        here: set[str] = set()
        for instruction in block.instructions:
            exposed |= sources(instruction) - here
            made = results(instruction)
            if instruction.guard is not None:
                exposed |= {instruction.guard.name} - here
                exposed |= made - here
            here |= made
        written |= here
        if block.meets is not None:
            for operand in block.meets.operands:
                exposed |= {r.name for r in registers_in(operand)}
    return written - exposed


def reach(block: Block) -> set[int]:
    """Return the indices of blocks that may come after a block."""
    seen: set[int] = set()
    left = list(block.followers)
    while left:
        follower = left.pop()
        if follower.index not in seen:
            seen.add(follower.index)
            left.extend(follower.followers)
    return seen
