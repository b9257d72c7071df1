"""A kernel and the device functions that it calls → one C++ file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import (
    _accesses,
    _arithmetic,
    _blackwell,
    _bulk,
    _calls,
    _convert,
    _hopper,
    _logic,
    _mma,
    _stack,
    _together,
    _video,
    _wmma,
    _words,
)
from ._errors import NotExecutedError, PtxError
from ._flow import Block, blocks_of, loops_of, reach, temporaries
from ._ir import (
    Address,
    Arguments,
    Function,
    Instruction,
    Operand,
    Pair,
    ParsedModule,
    Part,
    Register,
    Variable,
    Vector,
    registers_in,
)  # fmt: skip
from ._layout import Layout, frame_of, parameter_offsets
from ._wide import HANDLERS as WIDE
from ._wide import HEADER as WIDE_HEADER
from ._writer import Sites, Writer, refused, storage

HANDLERS = {
    **_arithmetic.HANDLERS, **_logic.HANDLERS, **_convert.HANDLERS, **_accesses.HANDLERS, **_together.HANDLERS,
    **_hopper.HANDLERS, **_wmma.HANDLERS, **_bulk.HANDLERS, **_words.HANDLERS, **_blackwell.HANDLERS,
    **_video.HANDLERS, **_mma.HANDLERS, **WIDE, **_stack.HANDLERS,
}  # fmt: skip
"""Who translates which instruction."""
_PACKED = {"f32x2": _hopper.pairs, **dict.fromkeys(_words.PAIRS, _words.pairs)}
_OF_PAIRS = {"add", "sub", "mul", "fma", "min", "max"}
_NO_RESULT = {"st", "red", "bar", "barrier", "bra", "brx", "ret", "exit", "trap", "membar", "fence", "cp", "prefetch",
              "prefetchu", "applypriority", "discard", "pmevent", "nanosleep", "stmatrix", "call",
              "setmaxnreg", "tensormap", "griddepcontrol", "stackrestore"}  # fmt: skip
_WAITING = {"atom", "nanosleep", "mbarrier"}


@dataclass(frozen=True)
class Translation:
    """The C++ of a kernel, and what Python must know to launch it."""

    source: str
    symbol: str
    entry: Function
    sites: tuple[Instruction, ...]
    blocks: tuple[tuple[Instruction, ...], ...]
    """The instructions of each counted basic block."""
    parameter_bytes: int
    stack_bytes: int
    shared_grain: int
    """The bytes of the smallest access to shared memory."""
    global_grain: int
    has_fences: bool
    prints: bool
    """Whether it calls `printf`."""
    needs_grid: bool
    """Whether it waits for all blocks of the grid, which must then be resident at once."""
    steps: tuple[tuple[Instruction, str], ...] = ()
    """Of a traced kernel the instructions, each with a register that it writes, or else reads."""
    registers: Mapping[str, str] = field(default_factory=dict)
    """Their PTX types."""


def translate(module: ParsedModule, layout: Layout, name: str, *, traced: bool = False) -> Translation:
    """Translate a kernel; a traced one notes what each instruction leaves in its registers, for one thread.

    Raises:
        NotExecutedError: where it, or a function that it calls, holds what is not executed.
    """
    entry = module.functions[name]
    sites = Sites()
    counted: list[tuple[Instruction, ...]] = []
    texts: list[str] = []
    heads: list[str] = []
    done: set[str] = set()
    left = [name]
    writers: list[Writer] = []
    steps: list[tuple[Instruction, str]] = []
    while left:
        function = module.functions[left.pop()]
        if function.name in done:
            continue
        done.add(function.name)
        if not function.defined:
            raise NotExecutedError(f"not executed: call of {function.name!r}, which is not in the PTX")
        writer, text = _function(module, function, layout, sites, counted, steps if traced else None)
        writers.append(writer)
        texts.append(text)
        if not function.is_entry:
            heads.append(_head(function) + ";")
        left += sorted(writer.called)
    registers = sum(len(f.registers) for n, f in module.functions.items() if n in done)
    temporaries = sum(text.count("\n") for text in texts)  # each has its own place where nothing is optimised
    return Translation(
        source="\n".join([*_includes(writers), "using namespace kw;", *heads, *texts]) + "\n",
        symbol="kw_kernel",
        entry=entry,
        sites=tuple(sites.instructions),
        blocks=tuple(counted),
        parameter_bytes=parameter_offsets(entry)[1],
        stack_bytes=-(-(registers * 1024 + temporaries * 512 + (1 << 19)) // 4096) * 4096,
        shared_grain=min(w.smallest["shared"] for w in writers),
        global_grain=min(w.smallest["global"] for w in writers),
        has_fences=any(w.has_fences for w in writers),
        prints=any(w.prints for w in writers),
        needs_grid=any(w.needs_grid for w in writers),
        steps=tuple(steps),
        registers={r: k for n, f in module.functions.items() if n in done for r, k in f.registers.items()},
    )


def _includes(writers: list[Writer]) -> list[str]:
    return [f'#include "{name}"' for name in ("runtime.h", *sorted({h for w in writers for h in w.headers}))]


def sources(i: Instruction) -> set[str]:
    """Name the registers that an instruction reads."""
    operands: Iterable[Operand] = i.operands
    if i.opcode == "call":
        operands = i.operands[1:] if isinstance(i.operands[0], Arguments) else i.operands
        return {r.name for o in operands for r in registers_in(o)}
    if not _lacks_result(i) and i.operands:
        operands = i.operands if i.opcode == "wgmma" else i.operands[1:]
    return {r.name for o in operands for r in registers_in(o)}


def results(i: Instruction) -> set[str]:
    """Name the registers that an instruction writes."""
    if not i.operands or (_lacks_result(i) and i.opcode != "call"):
        return set()
    first = i.operands[0]
    if i.opcode == "call" and not isinstance(first, Arguments):
        return set()
    match first:
        case Register() | Part() | Vector() | Pair() | Arguments():
            return {r.name for r in registers_in(first)}
    return set()


def _lacks_result(i: Instruction) -> bool:
    if i.opcode == "tcgen05":
        return i.modifiers[:1] != ("ld",)
    return i.opcode in _NO_RESULT or bool(i.operands and isinstance(i.operands[0], Address))


def _function(module: ParsedModule, function: Function, layout: Layout, sites: Sites,
              counted: list[tuple[Instruction, ...]], steps: list[tuple[Instruction, str]] | None,
              ) -> tuple[Writer, str]:  # fmt: skip
    blocks = blocks_of(function, _together.meets)
    temporary = temporaries(blocks, sources, results)
    for loop in loops_of(blocks):
        waits = any(_may_wait(i) for b in loop for i in b.instructions)
        for block in loop:
            block.spins = waits
    w = Writer(function, layout, sites, frame_of(function), temporary)
    w.steps = steps
    start = len(counted)
    for block in blocks:
        counted.append(tuple(block.instructions))
        _block(w, module, block, blocks, start)
    body = "\n".join(w.lines)
    given_back = ["w->local_low = low;"] if _stack.takes_stack(function) else []
    end = ["leave:", "w->local_top = frame;", *given_back, "return;", "}"]
    return w, "\n".join([f"{_head(function)} {{", *_prologue(w, blocks), body, *end])


def _may_wait(i: Instruction) -> bool:
    return i.opcode in _WAITING or (
        i.opcode == "ld" and bool({"volatile", "acquire", "relaxed"} & {*i.modifiers})
    )


def _head(function: Function) -> str:
    if function.is_entry:
        return "KW_KERNEL void kw_kernel(Warp* w)"
    arguments = [f"const Bytes<{_bytes(p)}>& a{n}" for n, p in enumerate(function.parameters)]
    results = [f"Bytes<{_bytes(p)}>& a{n + len(arguments)}" for n, p in enumerate(function.results)]
    name = "".join(c if c.isalnum() else "_" for c in function.name)
    return f"KW_FUNCTION static void f_{name}({', '.join(['Warp* w', 'Mask m', *arguments, *results])})"


def _bytes(variable: Variable) -> int:
    if variable.space != "param":
        raise NotExecutedError(f"not executed: {variable.name!r}, a parameter in a register")
    return max(variable.size, 1)


def _prologue(w: Writer, blocks: list[Block]) -> list[str]:
    lines = ["Mask m = w->alive;"] if w.function.is_entry else []
    lines += ["Flow f{w};", "bool turn = false;", "Mask cc = 0; (void)cc;"]
    site = w.site(Instruction(w.function.name, (), (), None, w.function.line))
    lines.append(f"const uint32_t frame = enter_local(w, m, {w.frame.size}, {site}); (void)frame;")
    if _stack.takes_stack(w.function):
        lines.append("const uint32_t low = w->local_low;")
    for name, at in w.frame.offsets.items():
        lines.append(f"allow_local(w, m, frame + {at}, {w.function.variables[name].size});")
    for name, kind in w.function.registers.items():
        if name in w.temporary:
            continue
        if kind == "b128":
            if WIDE_HEADER in w.headers:
                lines.append(f"b128 {w.name(name)} = {{zero<uint64_t>(), zero<uint64_t>()}};")
            continue
        c = storage(kind)
        lines.append(f"{c} {w.name(name)} = {'0' if c == 'Mask' else f'zero<uint{c[1:]}_t>()'};")
    for name, variable in w.function.variables.items():
        if variable.space == "param":
            lines.append(f"Bytes<{max(variable.size, 1)}> {w.bytes_variable(name)};")
    lines.append(f"bool seen[{len(blocks)}] = {{}}; (void)seen;")
    cost, spins = (16, "true") if any(b.spins for b in blocks) else (1, "false")
    table = ", ".join(f"&&B{b.index}" for b in blocks)
    lines += [
        f"static void* const table[] = {{{table}}};", "goto B0;", "dispatch: {", f"KW_DISPATCH({cost}, {spins});",
        "const int pc = f.next(&m, turn);", "turn = false;", "if (pc < 0) goto leave;", "goto *table[pc];", "}",
    ]  # fmt: skip
    return lines


def _block(w: Writer, module: ParsedModule, block: Block, blocks: list[Block], start: int) -> None:
    w.pc = block.index
    w.mask = "m"
    w.emit(f"B{block.index}: {{")
    if block.meets is not None:
        _meet(w, block, blocks)
    if _has_effect(block):
        w.emit(f"if (__builtin_expect(f.expected, 0)) seen[{block.index}] = true;")
    w.emit(f"KW_COUNT({start + block.index}, {len(block.instructions)});")
    made = {name for i in block.instructions for name in results(i)} & w.temporary
    for name in sorted(made, key=w.name):
        w.emit(f"{storage(w.function.registers[name])} {w.name(name)};")
    for instruction in block.instructions:
        if instruction.opcode in {"bra", "brx", "ret", "exit", "trap"}:
            _trace(w, instruction)
            _leave(w, block, instruction)
        else:
            _instruction(w, module, instruction)
    last = block.instructions[-1] if block.instructions else None
    if block.after is not None and not (last is not None and last.opcode in {"bra", "brx"}):
        w.emit(_go(block, block.after))
    w.emit("}")


def _instruction(w: Writer, module: ParsedModule, i: Instruction) -> None:
    w.emit("{")
    if i.guard is not None:
        w.emit(f"const Mask g = m & {w.predicate(i.guard)};")
        w.mask = "g"
    if i.opcode == "call":
        _calls.call(w, module, i)
    else:
        packed = _PACKED.get(i.modifiers[-1] if i.modifiers else "")
        handler = packed if packed and i.opcode in _OF_PAIRS else HANDLERS.get(i.opcode)
        if handler is None:
            raise refused(i)
        try:
            handler(w, i)
        except (ValueError, KeyError, IndexError, AttributeError):
            raise refused(i, "its operands are not those that the executor knows") from None
        except PtxError as error:
            raise PtxError(f"line {i.line}: {error}") from None
        except NotExecutedError as error:
            text = str(error)
            raise NotExecutedError(text if "line" in text else f"{text} at line {i.line}") from None
    _trace(w, i)
    w.mask = "m"
    w.emit("}")


def _trace(w: Writer, i: Instruction) -> None:
    """Write what notes the registers after an instruction, if the kernel is traced."""
    if w.steps is None:
        return
    guard = {r.name for r in registers_in(i.guard)} if i.guard is not None else set()
    for name in sorted(results(i) or sources(i) | guard) or [""]:
        given = f", {w.name(name)}" if name else ""
        w.emit(f"trace(w, {w.mask}, {len(w.steps)}{given});")
        w.steps.append((i, name))


def _go(block: Block, target: Block) -> str:
    if target.index <= block.index:
        cost, spins = (64, "true") if block.spins else (1, "false")
        return f"KW_BACK(B{target.index}, {target.index}, {cost}, {spins});"
    return f"KW_TO(B{target.index}, {target.index});"


def _leave(w: Writer, block: Block, i: Instruction) -> None:
    """Write the branch, return or exit at the end of a block."""
    if i.opcode == "bra":
        target = block.targets[0]
        if i.guard is None or block.after is None or block.after is target:
            return w.emit(_go(block, target))
        w.emit(f"const Mask t = m & {w.predicate(i.guard)};")
        w.emit(f"if (t == m) {{ {_go(block, target)} }}")
        w.emit(f"if (!t) {{ {_go(block, block.after)} }}")
        w.emit(f"f.put(t, {target.index}); f.put(m & ~t, {block.after.index});")
        return w.emit("goto dispatch;")
    if i.opcode == "brx":
        if i.guard is not None or not block.targets:
            raise refused(i)
        targets = ", ".join(str(t.index) for t in block.targets)
        w.emit(
            f"{{ const b32 to = {w.read(i.operands[0], 'b32')}; static const int16_t targets[] = {{{targets}}};"
        )
        w.emit(
            f"KW_EACH_LANE(k, m) f.put(Mask(1) << k, targets[to.at(k) < {len(block.targets)}u ? to.at(k) : 0]); }}"
        )
        return w.emit("goto dispatch;")
    who = "m" if i.guard is None else f"(m & {w.predicate(i.guard)})"
    if i.opcode == "trap":
        w.emit(f"if ({who}) stop(w, 3, {w.site(i)});")
    elif i.opcode == "exit" or w.function.is_entry:
        w.emit(f"w->alive &= ~{who};")
    if i.guard is None:
        return w.emit("if (!f.rest) goto leave; goto dispatch;")
    w.emit(f"m &= ~{who};" if i.opcode != "trap" else "")
    return w.emit("if (!m) { if (!f.rest) goto leave; goto dispatch; }")


def _meet(w: Writer, block: Block, blocks: list[Block]) -> None:
    """Write how lanes wait for each other before a block, and the report of those who went past a barrier."""
    at = block.meets
    assert at is not None
    is_barrier = at.opcode in {"bar", "barrier"} and at.modifiers[:1] != ("warp",)
    names = _together.names(w, at)
    w.emit(
        f"KW_GATHER(({names}), {block.index}, {w.site(at)});"
        if names
        else f"KW_MEET(~Mask(0), {block.index});"
    )
    after = [n for n in sorted(reach(block)) if _has_effect(blocks[n])]
    if after:
        w.emit(f"static const int16_t after[] = {{{', '.join(map(str, after))}}};")
        w.emit(f"KW_LEFT({6 if is_barrier else 10}, {w.site(at)}, seen, after);")


def _has_effect(block: Block) -> bool:
    """Tell whether a block touches memory or meets others."""
    inside = {"ld", "st", "atom", "red", "bar", "barrier", "cp"}
    return any(i.opcode in inside and "param" not in i.modifiers for i in block.instructions)
