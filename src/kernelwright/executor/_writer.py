"""What the translation of every instruction uses: operands as C++, results under a mask, sites, refusals."""

import re
from collections.abc import Iterable

from ._errors import NotExecutedError, PtxError
from ._ir import (
    WIDTHS,
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
)  # fmt: skip
from ._layout import GLOBAL_BASE, Frame, Layout, parameter_offsets, shared_name
from ._special import special

C_TYPES = {
    "b8": "uint8_t", "u8": "uint8_t", "s8": "int8_t",
    "b16": "uint16_t", "u16": "uint16_t", "s16": "int16_t", "f16": "uint16_t", "bf16": "uint16_t",
    "b32": "uint32_t", "u32": "uint32_t", "s32": "int32_t", "f32": "float", "f16x2": "uint32_t",
    "bf16x2": "uint32_t", "tf32": "uint32_t", "u16x2": "uint32_t", "s16x2": "uint32_t",
    "b64": "uint64_t", "u64": "uint64_t", "s64": "int64_t", "f64": "double", "f32x2": "uint64_t",
}  # fmt: skip
"""The C++ type of a lane of each PTX type."""
MOST_SITES = 16000


def refused(instruction: Instruction, why: str = "") -> NotExecutedError:
    """Return the refusal of an instruction."""
    reason = f" ({why})" if why else ""
    source = f", {instruction.source}" if instruction.source else ""
    return NotExecutedError(
        f"not executed: instruction {instruction.name} at line {instruction.line}{source}{reason}"
    )


def unsigned(bytes_each: int) -> str:
    """Return the C++ type of a register's lane."""
    return f"uint{8 * bytes_each}_t"


def storage(kind: str) -> str:
    """Return the C++ type of a register."""
    if kind == "pred":
        return "Mask"
    return f"b{8 * max(WIDTHS[kind], 2)}"


def both(operand: Operand) -> tuple[Operand, Operand]:
    """Return the two destinations of `a|b`; the second is a sink where there is one only."""
    if isinstance(operand, Pair):
        return operand.first, operand.second
    return operand, Sink()


class Modifiers:
    """The modifiers of an instruction, taken one by one; what nobody took is refused."""

    def __init__(self, instruction: Instruction) -> None:
        self._instruction = instruction
        self._left = list(instruction.modifiers)

    def take(self, *names: str) -> str:
        """Return the first of these that is there, or nothing."""
        for name in names:
            if name in self._left:
                self._left.remove(name)
                return name
        return ""

    def drop(self, names: Iterable[str]) -> None:
        """Take all of these that are there."""
        wanted = set(names)
        self._left = [m for m in self._left if m not in wanted]

    def drop_matching(self, pattern: str) -> None:
        """Take all that match."""
        self._left = [m for m in self._left if not re.fullmatch(pattern, m)]

    def type(self) -> str:
        """Take the last modifier, which is a type."""
        if not self._left or self._left[-1] not in {*WIDTHS, "pred"}:
            raise refused(self._instruction)
        return self._left.pop()

    def done(self) -> None:
        """Refuse the instruction if modifiers are left."""
        if self._left:
            raise refused(self._instruction)


class Sites:
    """The instructions that findings and counters name, shared by the functions of a kernel."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []

    def add(self, instruction: Instruction) -> int:
        """Return the number of a new site."""
        if len(self.instructions) >= MOST_SITES:
            raise NotExecutedError(f"not executed: more than {MOST_SITES} memory and barrier instructions")
        self.instructions.append(instruction)
        return len(self.instructions) - 1


class Writer:
    """Writes the C++ of one function."""

    def __init__(
        self, function: Function, layout: Layout, sites: Sites, frame: Frame, temporary: set[str]
    ) -> None:
        self.function = function
        self.layout = layout
        self.sites = sites
        self.frame = frame
        self.temporary = temporary
        self.lines: list[str] = []
        self.called: set[str] = set()
        self.smallest = {"shared": 16, "global": 16}
        """Bytes of the smallest access to each space."""
        self.has_fences = False
        self.prints = False
        self.needs_grid = False
        self.headers: set[str] = set()
        """What the C++ includes besides `runtime.h`."""
        self.pc = 0
        """The block that is being written."""
        self.steps: list[tuple[Instruction, str]] | None = None
        """What a traced kernel notes, in the order of the code."""
        self.mask = "m"
        self.parameters, _ = parameter_offsets(function)
        self._names = {
            name: f"v{n}_{re.sub(r'[^0-9A-Za-z]', '', name)}" for n, name in enumerate(function.registers)
        }
        self._variables = {name: f"p{n}" for n, name in enumerate(function.variables)}

    def emit(self, line: str) -> None:
        """Append a line of C++."""
        self.lines.append(line)

    def site(self, instruction: Instruction) -> int:
        """Return a number under which findings name this instruction."""
        return self.sites.add(instruction)

    def name(self, register: str) -> str:
        """Return the C++ name of a register."""
        return self._names[register]

    def kind(self, operand: Operand) -> str:
        """Return the PTX type of a register; empty for anything else."""
        return self.function.registers[operand.name] if isinstance(operand, Register) else ""

    def predicate(self, operand: Operand) -> str:
        """Return a predicate as a mask."""
        if isinstance(operand, Immediate):
            return "~Mask(0)" if operand.value else "Mask(0)"
        if operand == Special("%is_explicit_cluster"):
            return "w->explicit_cluster"
        if self.kind(operand) != "pred":
            raise PtxError(f"{operand} is no predicate, in {self.function.name!r}")
        assert isinstance(operand, Register)
        return ("~" if operand.negated else "") + self.name(operand.name)

    def read(self, operand: Operand, kind: str) -> str:
        """Return an operand as lanes of a PTX type."""
        c = C_TYPES[kind]
        match operand:
            case Register():
                if self.kind(operand) == "pred":
                    raise PtxError(
                        f"the predicate {operand.name} stands for a {kind}, in {self.function.name!r}"
                    )
                own = unsigned(max(WIDTHS[self.kind(operand)], 2))
                return f"as<{c}, {own}>({self.name(operand.name)})"
            case Immediate():
                return self._constant(operand, kind)
            case Special(
                name="%envreg1" | "%envreg2" as name
            ):  # halves of the address of the grid's workspace
                self.needs_grid = True
                half = (GLOBAL_BASE + self.layout.workspace) >> (32 if name == "%envreg1" else 0)
                return f"as<{c}, uint32_t>(splat<uint32_t>({half & 0xFFFFFFFF}u))"
            case Special(name=name):
                text, width = special(name)
                return f"as<{c}, {unsigned(width)}>({text})"
            case Symbol(name=name, offset=offset):
                return f"as<{c}, uint64_t>({self.address_of_symbol(name, offset)})"
            case _:
                raise PtxError(f"{operand} stands where a value was expected, in {self.function.name!r}")

    def _constant(self, operand: Immediate, kind: str) -> str:
        c, value = C_TYPES[kind], operand.value
        if kind in {"f32", "f64"}:
            if not operand.float_bytes:
                return f"splat<{c}>({c}({value}))"
            bits = (
                f"bits<float>(uint32_t({value}u))"
                if operand.float_bytes == 4
                else f"bits<double>(uint64_t({value}ull))"
            )
            return f"splat<{c}>({c}({bits}))"
        if operand.float_bytes == 8 and WIDTHS[kind] != 8:
            raise PtxError(f"a 64-bit floating constant stands for a {kind}, in {self.function.name!r}")
        return f"splat<{c}>({c}({value & 0xFFFFFFFFFFFFFFFF}ull))"

    def address_of_symbol(self, name: str, offset: int) -> str:
        """Return the address of a variable, in its own space, or of a function, as 64-bit lanes."""
        if name in self.layout.functions:
            return f"splat<uint64_t>({self.layout.functions[name] + offset}ull)"
        space, at = self.place(name)
        if space == "local":
            return f"splat<uint64_t>(frame + {at + offset}ull)"
        if space == "param" and not self.function.is_entry:
            raise NotExecutedError(f"not executed: address of the parameter {name!r} of a device function")
        base = GLOBAL_BASE if space == "global" else 0
        return f"splat<uint64_t>({base + at + offset}ull)"

    def place(self, name: str) -> tuple[str, int]:
        """Return the space and offset of a variable.

        Raises:
            NotExecutedError: where the name is an entry's, a texture's or nobody's.
            PtxError: where there is no such variable.
        """
        variable = self.function.variables.get(name)
        if variable is not None:
            if variable.space == "shared":
                return "shared", self.layout.shared[shared_name(self.function, name)]
            if variable.space == "local":
                return "local", self.frame.offsets[name]
        if name in self.parameters:
            return "param", self.parameters[name]
        if name in self.layout.globals:
            return "global", self.layout.globals[name]
        if name in self.layout.shared:
            return "shared", self.layout.shared[name]
        raise NotExecutedError(
            f"not executed: address of {name!r} in {self.function.name!r} (a function or texture?)"
        )

    def bytes_variable(self, name: str) -> str:
        """Return the C++ name of a `.param` variable of a device function or a call."""
        if name in self._variables:
            return self._variables[name]
        names = [p.name for p in (*self.function.parameters, *self.function.results)]
        if not self.function.is_entry and name in names:
            return f"a{names.index(name)}"
        raise PtxError(f"there is no parameter {name!r} in {self.function.name!r}")

    def address(self, operand: Operand) -> str:
        """Return the address of a memory operand as 64-bit lanes."""
        if not isinstance(operand, Address):
            raise PtxError(f"{operand} stands where an address was expected, in {self.function.name!r}")
        match operand.base:
            case Register() as base:
                own = unsigned(WIDTHS[self.kind(base)])
                return f"address_of<{own}>({self.name(base.name)}, {operand.offset}ll)"
            case Symbol(name=name, offset=offset):
                return self.address_of_symbol(name, offset + operand.offset)
        return f"splat<uint64_t>({operand.offset}ull)"

    def write(self, operand: Operand, value: str, kind: str) -> None:
        """Put lanes of a PTX type into a register, for the lanes that the instruction runs on."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise PtxError(f"{operand} stands where a register was expected, in {self.function.name!r}")
        name, own = self.name(operand.name), self.kind(operand)
        if own == "pred" or kind == "pred":
            if own != kind:
                raise PtxError(f"{operand.name} is a {own}, not a {kind}, in {self.function.name!r}")
            new = value
        else:
            new = f"widen<{unsigned(max(WIDTHS[own], 2))}, {C_TYPES[kind]}>({value})"
            if WIDTHS[own] < WIDTHS[kind]:
                raise PtxError(
                    f"{operand.name} is a {own}, too narrow for a {kind}, in {self.function.name!r}"
                )
        if self.mask == "m" and operand.name in self.temporary:
            self.emit(f"{name} = {new};")
        else:
            self.emit(f"{name} = pick({self.mask}, {new}, {name});")
