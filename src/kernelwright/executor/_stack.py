"""alloca, stacksave, stackrestore: memory of a thread's own that a function takes while it runs.

Source: PTX ISA, "Stack Manipulation Instructions". The stack grows down from the end of a thread's local memory, to
the variables that functions declare.
"""

from ._arithmetic import Handler
from ._ir import Function, Immediate, Instruction
from ._writer import Writer, refused

_LEAST_ALIGN, _MOST_ALIGN = 8, 1 << 23


def takes_stack(function: Function) -> bool:
    """Tell whether a function must give back what it took when it returns."""
    return any(isinstance(i, Instruction) and i.opcode in HANDLERS for i in function.body)


def allocate(w: Writer, i: Instruction) -> None:
    """alloca."""
    if i.modifiers != ("u64",) or len(i.operands) not in {2, 3}:
        raise refused(i)
    dest, size, *given = i.operands
    align = given[0] if given else Immediate(_LEAST_ALIGN)
    if (
        not isinstance(align, Immediate)
        or align.value & (align.value - 1)
        or not 0 < align.value <= _MOST_ALIGN
    ):
        raise refused(i, "an alignment that is no power of two up to 2^23")
    to = max(align.value, _LEAST_ALIGN)
    w.write(dest, f"take_stack(w, {w.mask}, {w.read(size, 'u64')}, {to}, {w.site(i)})", "u64")


def save(w: Writer, i: Instruction) -> None:
    """stacksave."""
    if i.modifiers != ("u64",):
        raise refused(i)
    w.write(i.operands[0], "splat<uint64_t>(w->local_low)", "u64")


def restore(w: Writer, i: Instruction) -> None:
    """stackrestore."""
    if i.modifiers != ("u64",):
        raise refused(i)
    w.emit(f"give_stack(w, {w.mask}, {w.read(i.operands[0], 'u64')}, {w.site(i)});")


HANDLERS: dict[str, Handler] = {"alloca": allocate, "stacksave": save, "stackrestore": restore}
