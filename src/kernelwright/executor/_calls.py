"""call: of a function by name, through a pointer, of printf."""

from ._ir import Arguments, Function, Instruction, Operand, ParsedModule, Symbol
from ._writer import Writer, refused

_PRINTS = "vprintf"
_TRAPS = {"__assertfail"}


def call(w: Writer, module: ParsedModule, i: Instruction) -> None:
    """call."""
    operands = list(i.operands)
    results = operands.pop(0) if isinstance(operands[0], Arguments) else Arguments(())
    callee = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Arguments) else Arguments(())
    assert isinstance(results, Arguments) and isinstance(arguments, Arguments)
    given = [*arguments.items, *results.items]
    if isinstance(callee, Symbol) and callee.name not in module.functions:
        raise refused(i, f"{callee.name!r} is no function of the PTX")
    if isinstance(callee, Symbol) and callee.name == _PRINTS:
        return _print(w, i, given)
    if isinstance(callee, Symbol) and callee.name in _TRAPS:
        return w.emit(f"stop(w, 3, {w.site(i)});")
    names = [x.name for x in given if isinstance(x, Symbol)]
    if len(names) != len(given):
        raise refused(i, "arguments that are not `.param` variables")
    if isinstance(callee, Symbol):
        function = module.functions[callee.name]
        if len(names) != len(function.parameters) + len(function.results):
            raise refused(i, "not as many arguments as the function has")
        w.emit(_called(w, function, "m", names))
    else:
        _through(w, module, i, callee, (len(arguments.items), names))
    w.emit("m &= w->alive; if (!m) { if (!f.rest) goto leave; goto dispatch; }")
    return None


def _called(w: Writer, function: Function, mask: str, names: list[str]) -> str:
    w.called.add(function.name)
    name = "".join(c if c.isalnum() else "_" for c in function.name)
    return f"f_{name}({', '.join(['w', mask, *(w.bytes_variable(n) for n in names)])});"


def _through(
    w: Writer, module: ParsedModule, i: Instruction, pointer: Operand, given: tuple[int, list[str]]
) -> None:
    """Write the calls of those functions that the pointer may name: whose address is taken, and that fit.

    Lanes with the same pointer go together. A pointer to anything else ends the launch, as on a device.
    """
    count, names = given
    sizes = [w.function.variables[n].size if n in w.function.variables else -1 for n in names]
    w.emit(f"const b64 to = {w.read(pointer, 'b64')};")
    w.emit("Mask left = m;")
    for name, address in w.layout.functions.items():
        function = module.functions[name]
        own = [v.size for v in (*function.parameters, *function.results)]
        if own != sizes or len(function.parameters) != count:
            continue
        each = _called(w, function, "here", names)
        w.emit(
            f"if (const Mask here = left & eq<uint64_t>(to, splat<uint64_t>({address}ull))) {{ {each} left &= ~here; }}"
        )
    w.emit(f"if (left) stop(w, 3, {w.site(i)});")


def _print(w: Writer, i: Instruction, given: list[Operand]) -> None:
    names = [x.name for x in given if isinstance(x, Symbol)]
    if len(names) != 3 or len(given) != 3:
        raise refused(i, "vprintf takes a format and arguments and returns a number")
    text, values, count = (w.bytes_variable(name) for name in names)
    w.prints = True
    w.emit(
        f"const b32 taken = print(w, m, get<uint64_t>({text}, 0), get<uint64_t>({values}, 0), {w.site(i)});"
    )
    w.emit(f"put<uint32_t>({count}, 0, m, taken);")
