"""Where variables lie: one arena for global memory, a window each for shared, local and parameter space."""

from dataclasses import dataclass, field
from typing import Final

from ._errors import NotExecutedError
from ._ir import Function, Instruction, ParsedModule, Symbol, Variable

GLOBAL_BASE: Final = 0x700000000000
SHARED_BASE: Final = 0x7E0000000000
LOCAL_BASE: Final = 0x7D0000000000
CODE_BASE: Final = 0x7B0000000000
"""Where functions seem to lie whose addresses are taken; nothing there may be read."""
PARAM_BASE: Final = 0x7C0000000000
RED_ZONE: Final = 256
"""Bytes between allocations of global memory that nobody may touch."""
SHARED_START: Final = 1024
_SHARED_GAP: Final = 16
_LOCAL_GAP: Final = 16
_WORKSPACE: Final = 16

THERE, WRITTEN, PENDING, FIXED = 1, 2, 4, 8
"""Bits of a shadow byte: allocated, initialised, an asynchronous copy is on its way, constant."""


def aligned(offset: int, align: int) -> int:
    """Round up to a multiple.

    Example:
        >>> aligned(17, 16)
        32
    """
    return -(-offset // align) * align


@dataclass
class Frame:
    """The local variables of a function and the bytes that each lane needs for them."""

    offsets: dict[str, int] = field(default_factory=dict)
    size: int = 0


class Layout:
    """Gives every variable of a module its address."""

    def __init__(self, module: ParsedModule) -> None:
        self.globals: dict[str, int] = {}
        """Offset of each `.global` and `.const` variable in the arena."""
        self.shared: dict[str, int] = {}
        self.functions = _functions(module)
        """Address of each function whose address is taken."""
        self.spaces: dict[str, str] = {name: v.space for name, v in module.variables.items()}
        self.global_size = RED_ZONE
        self.static_end = SHARED_START
        self._module = module
        self._shared_sizes: dict[str, int] = {}
        dynamic = []
        for variable in module.variables.values():
            if variable.space in {"global", "const"}:
                self.globals[variable.name] = at = aligned(self.global_size, max(variable.align, 16))
                self.global_size = at + variable.size + RED_ZONE
            elif variable.dynamic:
                dynamic.append(variable.name)
            else:
                self._place_shared(variable.name, variable)
        for function in module.functions.values():
            for name, variable in function.variables.items():
                if variable.space == "shared":
                    if variable.dynamic:
                        dynamic.append(shared_name(function, name))
                    else:
                        self._place_shared(shared_name(function, name), variable)
        self.workspace = 0
        """Offset of what the barrier of a whole grid counts in; 0 where no kernel has one."""
        if "%envreg" in module.text:
            self.workspace = aligned(self.global_size, 16)
            self.global_size = self.workspace + _WORKSPACE + RED_ZONE
        self.dynamic_start = aligned(self.static_end, SHARED_START)
        self.shared |= dict.fromkeys(dynamic, self.dynamic_start)
        self.has_dynamic = bool(dynamic)

    def _place_shared(self, name: str, variable: Variable) -> None:
        if variable.contents:
            raise NotExecutedError(f"not executed: shared variable {name} with contents")
        self.shared[name] = at = aligned(self.static_end, max(variable.align, 16))
        self._shared_sizes[name] = variable.size
        self.static_end = at + variable.size + _SHARED_GAP

    def static_bytes(self) -> int:
        """Return the bytes of shared memory that the variables take on a device."""
        return sum(self._shared_sizes.values())

    def variable(self, name: str) -> tuple[int, int] | None:
        """Return where a `.global` or `.const` variable lies in the arena, and its bytes; None where there is none."""
        if name not in self.globals:
            return None
        return self.globals[name], self._module.variables[name].size

    def variables(self) -> list[tuple[str, int, int]]:
        """Return the name, the place in the arena and the bytes of each `.global` or `.const` variable."""
        return [(name, at, self._module.variables[name].size) for name, at in self.globals.items()]

    def constants(self) -> list[tuple[int, int]]:
        """Return the address and the bytes of each `.const` variable."""
        held = [(at, self._module.variables[name]) for name, at in self.globals.items()]
        return [(GLOBAL_BASE + at, v.size) for at, v in held if v.space == "const"]

    def shared_shadow(self, dynamic_bytes: int) -> bytes:
        """Return which bytes of the shared window may be touched."""
        shadow = bytearray(self.dynamic_start + dynamic_bytes + _SHARED_GAP)
        for name, size in self._shared_sizes.items():
            at = self.shared[name]
            shadow[at : at + size] = bytes([THERE]) * size
        shadow[self.dynamic_start : self.dynamic_start + dynamic_bytes] = bytes([THERE]) * dynamic_bytes
        return bytes(shadow)

    def image(self) -> tuple[bytes, bytes]:
        """Return the first contents of global memory, and its shadow."""
        data, shadow = bytearray(self.global_size), bytearray(self.global_size)
        for name, at in self.globals.items():
            variable = self._module.variables[name]
            place = at
            for item in variable.contents:
                if isinstance(item, Symbol):
                    data[place : place + 8] = self._address(item, variable).to_bytes(8, "little")
                    place += 8
                else:
                    data[place] = item
                    place += 1
            bits = THERE | WRITTEN | (FIXED if variable.space == "const" else 0)
            shadow[at : at + variable.size] = bytes([bits]) * variable.size
        if self.workspace:
            shadow[self.workspace : self.workspace + _WORKSPACE] = bytes([THERE | WRITTEN]) * _WORKSPACE
        return bytes(data), bytes(shadow)

    def _address(self, symbol: Symbol, variable: Variable) -> int:
        if symbol.name in self.functions:
            return self.functions[symbol.name] + symbol.offset
        if symbol.name not in self.globals:
            raise NotExecutedError(
                f"not executed: address of {symbol.name!r} in the contents of {variable.name!r}"
            )
        return GLOBAL_BASE + self.globals[symbol.name] + symbol.offset


def _functions(module: ParsedModule) -> dict[str, int]:
    """Give an address to each device function that a variable holds, or that an instruction but a call names."""
    named = {item.name for v in module.variables.values() for item in v.contents if isinstance(item, Symbol)}
    for function in module.functions.values():
        for i in function.body:
            if isinstance(i, Instruction) and i.opcode == "mov":
                named |= {operand.name for operand in i.operands if isinstance(operand, Symbol)}
    known = [name for name, f in module.functions.items() if name in named and f.defined and not f.is_entry]
    return {name: CODE_BASE + 16 * n for n, name in enumerate(known)}


def shared_name(function: Function, name: str) -> str:
    """Return the module-wide name of a function's shared variable."""
    return f"{function.name}/{name}"


def frame_of(function: Function) -> Frame:
    """Place the local variables of a function."""
    frame = Frame()
    for name, variable in function.variables.items():
        if variable.space == "local":
            at = aligned(frame.size, max(variable.align, 16))
            frame.offsets[name] = at
            frame.size = at + variable.size + _LOCAL_GAP
    frame.size = aligned(frame.size, 16)
    return frame


def parameter_offsets(function: Function) -> tuple[dict[str, int], int]:
    """Return where each parameter of a kernel lies, and the bytes of all."""
    offsets, at = {}, 0
    for parameter in function.parameters:
        at = aligned(at, parameter.align)
        offsets[parameter.name] = at
        at += parameter.size
    return offsets, at
