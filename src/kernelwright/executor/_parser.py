"""PTX text → ParsedModule: directives, declarations, functions, instructions with their source lines.

Covers: modules of nvcc, Triton (LLVM's NVPTX) and hand: `.entry`, `.func`, all state spaces, nested scopes,
`.loc` and `.file`, initialisers with addresses, `.branchtargets`.
Does not cover: textures, surfaces and samplers, `.alias`.
"""

import math
import re
from typing import Final

from ._errors import NotExecutedError, PtxError
from ._ir import (
    WIDTHS,
    Address,
    Arguments,
    Function,
    Instruction,
    Label,
    Operand,
    ParsedModule,
    Register,
    Source,
    Symbol,
    Variable,
)  # fmt: skip
from ._lexer import tokens
from ._operands import Cursor, Operands, signed_constant

_LINKING: Final = {".extern", ".visible", ".weak", ".common"}
_SPACES: Final = {".global", ".const", ".shared", ".local", ".param"}
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+([^\n]*"[^\n]*)$', re.MULTILINE)
_TUNING: Final = {".maxntid", ".reqntid", ".maxnreg", ".minnctapersm", ".maxnctapersm", ".reqnctapercluster",
                  ".maxclusterrank"}  # fmt: skip
_TYPES: Final = {*WIDTHS, "pred"}
_NEWEST_VERSION, _NEWEST_TARGET = 9, 121
"""Major version of the PTX ISA and target beyond which nobody here has read what instructions mean."""
_MOST_BYTES: Final = 1 << 28
"""Bytes of a variable: what a launch holds of each is several times that."""
_MOST_REGISTERS, _MOST_ALIGN, _MOST_TUNED = 1 << 20, 1 << 16, 1 << 31
"""Registers that one declaration makes; alignments; numbers of `.maxntid` and its like."""


def parse(text: str) -> ParsedModule:
    """Read a PTX module.

    Raises:
        PtxError: where the text is not PTX; the message names the line.
        NotExecutedError: where it declares what the executor has no notion of.

    Example:
        >>> parse(".version 8.0\\n.target sm_80\\n.address_size 64\\n.entry f() { ret; }").functions["f"].is_entry
        True
    """
    module = _Parser(text).module()
    for line, given in ((".version", module.version), (".target", module.target)):
        if not given:
            raise PtxError(f"this is no PTX: there is no `{line}` line")
    return module


def _refuse_newer(module: ParsedModule) -> None:
    version, target = re.match(r"(\d+)\.\d+$", module.version), re.match(r"sm_(\d+)[af]?$", module.target)
    if version is None or target is None:
        raise PtxError(
            f"this is no PTX: `.version {module.version}`, `.target {module.target}`; "
            "expected such as `.version 8.0` and then `.target sm_80`"
        )
    if int(version[1]) > _NEWEST_VERSION or int(target[1]) > _NEWEST_TARGET:
        raise NotExecutedError(
            f"not executed: PTX {module.version} for {module.target} is newer than what is known here "
            f"({_NEWEST_VERSION}.x, sm_{_NEWEST_TARGET}); compile the kernel for an earlier target"
        )


class _Parser:
    def __init__(self, text: str) -> None:
        self._cursor = Cursor(tokens(text))
        self._module = ParsedModule(text=text)
        self._files = {int(n): re.findall(r'"([^"]*)"', rest)[-1] for n, rest in _FILE.findall(text)}
        self._callers: dict[tuple[int, int, int], tuple[int, int, int]] = {}
        self._source: Source | None = None
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def module(self) -> ParsedModule:
        cursor = self._cursor
        while cursor.peek():
            if self._place():
                continue
            match word := cursor.peek():
                case ".version":
                    cursor.take()
                    self._module.version = cursor.take()
                case ".target":
                    cursor.take()
                    self._module.target = cursor.take()
                    while cursor.accept(","):
                        cursor.take()
                    _refuse_newer(self._module)
                case ".address_size":
                    cursor.take()
                    if cursor.take() != "64":
                        raise NotExecutedError(f"not executed: 32-bit addresses at line {cursor.line}")
                case ".section":
                    self._skip_section()
                case ".pragma":
                    self._skip_to_semicolon()
                case ".func" | ".entry":
                    self._function()
                case _ if word in _LINKING:
                    cursor.take()
                case _ if word in _SPACES:
                    for variable in self._variables():
                        self._declare(variable)
                case _ if word.startswith("."):
                    raise NotExecutedError(f"not executed: directive {word} at line {cursor.line}")
                case _:
                    raise PtxError(f"line {cursor.line}: {word!r} stands where a declaration was expected")
        return self._module

    def _declare(self, variable: Variable) -> None:
        known = self._module.variables.get(variable.name)
        if known is None or not known.contents:
            self._module.variables[variable.name] = variable

    def _place(self) -> bool:
        if self._cursor.kind() != "place":
            return False
        text = self._cursor.take()
        if (found := _LOC.match(text)) is not None:
            here = (int(found[1]), int(found[2]), int(found[3]))
            if found[4] is not None:
                self._callers[here] = (int(found[4]), int(found[5]), int(found[6]))
            seen = {here}
            while (caller := self._callers.get(here)) is not None and caller not in seen:
                seen.add(here := caller)
            self._source = Source(self._files.get(here[0], f"file {here[0]}"), here[1], here[2])
        return True

    def _skip_section(self) -> None:
        while self._cursor.take() != "{":
            pass
        while self._cursor.take() != "}":
            pass

    def _skip_to_semicolon(self) -> None:
        while self._cursor.take() != ";":
            pass

    def _variables(self) -> list[Variable]:
        """Read `.space .align N .type name[..] = {...}, ...;`."""
        found = [self._variable(self._cursor.take()[1:])]
        while self._cursor.accept(","):
            last = found[-1]
            found.append(self._named(last.space, last.type, last.align, Source("", 0)))
        self._cursor.take(";")
        return found

    def _variable(self, space: str) -> Variable:
        cursor, align, kind = self._cursor, 0, ""
        lanes = 1
        while cursor.kind() == "directive":
            match word := cursor.take()[1:]:
                case "align":
                    align = cursor.whole(_MOST_ALIGN)
                    if not align or align & (align - 1):
                        raise PtxError(f"line {cursor.line}: an alignment of {align} is no power of two")
                case "v2" | "v4":
                    lanes = int(word[1])
                case "ptr":
                    while cursor.peek() in {".global", ".shared", ".const", ".local", ".param"}:
                        cursor.take()
                    if cursor.accept(".align"):
                        cursor.take()
                case _ if word in _TYPES:
                    kind = word
                case "attribute":
                    raise NotExecutedError(f"not executed: .attribute at line {cursor.line}")
                case _:
                    raise NotExecutedError(f"not executed: type .{word} at line {cursor.line}")
        if kind not in WIDTHS:
            raise PtxError(f"line {cursor.line}: a variable without a type")
        return self._named(space, kind, align, None, lanes)

    def _named(self, space: str, kind: str, align: int, _after: Source | None, lanes: int = 1) -> Variable:
        cursor, width = self._cursor, WIDTHS[kind]
        name, count, dynamic = cursor.take(), lanes, False
        while cursor.accept("["):
            if cursor.accept("]"):
                dynamic = True
                continue
            count *= signed_constant(cursor).value
            cursor.take("]")
        contents: list[int | Symbol] = []
        if cursor.accept("="):
            self._contents(contents, width)
            if dynamic:
                count, dynamic = -(-_size(contents) // width), False
        size = 0 if dynamic else count * width
        if size < 0 or (size > _MOST_BYTES and space != "shared"):  # which a launch refuses
            raise PtxError(f"line {cursor.line}: {name!r} has {size} bytes; expected at most {_MOST_BYTES}")
        contents += [0] * (size - _size(contents)) if contents else []
        return Variable(name, space, kind, size, max(align, width), tuple(contents), dynamic)

    def _contents(self, into: list[int | Symbol], width: int) -> None:
        cursor = self._cursor
        if cursor.accept("{"):
            while cursor.peek() != "}":
                self._contents(into, width)
                if not cursor.accept(","):
                    break
            cursor.take("}")
        elif cursor.kind() == "name":
            name = cursor.take()
            if name == "generic":
                cursor.take("(")
                name = cursor.take()
                cursor.take(")")
            offset = signed_constant(cursor).value if cursor.accept("+") else 0
            if width != 8:
                raise NotExecutedError(f"not executed: an address of {width} bytes at line {cursor.line}")
            into.append(Symbol(name, offset))
        else:
            value = signed_constant(cursor).value & ((1 << (8 * width)) - 1)
            into.extend(value.to_bytes(width, "little"))

    def _function(self) -> None:
        cursor = self._cursor
        line, is_entry = cursor.line, cursor.take() == ".entry"
        results = self._parameters() if cursor.peek() == "(" else []
        while cursor.peek().startswith(".") and cursor.kind() == "directive":
            cursor.take()
        name = cursor.take()
        function = Function(name, is_entry, self._parameters() if cursor.peek() == "(" else [], results, line)
        self._tuning(function)
        known = self._module.functions.get(name)
        if cursor.accept(";"):
            self._module.functions.setdefault(name, function)
            return
        if known is not None and known.defined:
            raise PtxError(f"line {line}: {name!r} is defined twice")
        function.defined = True
        self._module.functions[name] = function
        self._body(function)

    def _tuning(self, function: Function) -> None:
        cursor = self._cursor
        while cursor.peek() not in {";", "{"}:
            word = cursor.take()
            if word in _TUNING:
                numbers = [cursor.whole(_MOST_TUNED)]
                while cursor.accept(","):
                    numbers.append(cursor.whole(_MOST_TUNED))
                if word == ".reqntid":
                    function.required_threads = (*numbers, 1, 1)[:3]
                elif word == ".reqnctapercluster":
                    function.required_cluster = (*numbers, 1, 1)[:3]
                elif word == ".maxntid":
                    function.most_threads = math.prod(numbers)
            elif word not in {".noreturn", ".explicitcluster"}:
                raise NotExecutedError(f"not executed: directive {word} at line {cursor.line}")

    def _parameters(self) -> list[Variable]:
        cursor, found = self._cursor, []
        cursor.take("(")
        while cursor.peek() != ")":
            found.append(self._variable(cursor.take()[1:]))
            if not cursor.accept(","):
                break
        cursor.take(")")
        return found

    def _body(self, function: Function) -> None:
        cursor = self._cursor
        self._scopes, self._source = [{}], None
        cursor.take("{")
        for variable in (*function.parameters, *function.results):
            if variable.space == "reg":
                function.registers[variable.name] = variable.type
                self._scopes[0][variable.name] = variable.name
        while self._scopes:
            if self._place():
                continue
            word = cursor.peek()
            if word == "{":
                cursor.take()
                self._scopes.append({})
            elif word == "}":
                cursor.take()
                self._scopes.pop()
            elif word == ".reg":
                self._registers(function)
            elif word in _SPACES:
                for variable in self._variables():
                    self._local(function, variable)
            elif word == ".pragma":
                self._skip_to_semicolon()
            elif word in {".branchtargets", ".callprototype"}:
                raise PtxError(f"line {cursor.line}: {word} without a label")
            else:
                self._statement(function)

    def _local(self, function: Function, variable: Variable) -> None:
        name = self._unique(function.variables, variable.name)
        self._scopes[-1]["&" + variable.name] = name
        values = {**variable.__dict__, "name": name}
        function.variables[name] = Variable(**values)

    def _unique(self, known: "dict[str, Variable] | dict[str, str]", name: str) -> str:
        if name not in known:
            return name
        self._count += 1
        return f"{name}.{self._count}"

    def _registers(self, function: Function) -> None:
        cursor = self._cursor
        cursor.take()
        kind = cursor.take()[1:]
        if kind in {"v2", "v4"} or kind not in _TYPES:
            raise NotExecutedError(f"not executed: registers of type .{kind} at line {cursor.line}")
        while True:
            name, names = cursor.take(), []
            if cursor.accept("<"):
                names = [f"{name}{i}" for i in range(cursor.whole(_MOST_REGISTERS))]
                cursor.take(">")
            for each in names or [name]:
                unique = self._unique(function.registers, each)
                function.registers[unique] = kind
                self._scopes[-1][each] = unique
            if not cursor.accept(","):
                break
        cursor.take(";")

    def _lookup(self, name: str) -> str | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _statement(self, function: Function) -> None:
        cursor = self._cursor
        if cursor.peek(1) == ":" and cursor.kind() == "name":
            name = cursor.take()
            cursor.take(":")
            if cursor.peek() == ".branchtargets":
                cursor.take()
                function.tables[name] = [cursor.take()]
                while cursor.accept(","):
                    function.tables[name].append(cursor.take())
                cursor.take(";")
            elif cursor.peek() == ".callprototype":
                self._skip_to_semicolon()
            else:
                function.body.append(Label(name))
            return
        guard = None
        line = cursor.line
        if cursor.accept("@"):
            negated = cursor.accept("!")
            name = self._lookup(word := cursor.take()) or ""
            if not name:
                raise PtxError(f"line {line}: no predicate {word!r} is declared")
            guard = Register(name, negated)
        if cursor.kind() != "name":
            raise PtxError(f"line {cursor.line}: {cursor.peek()!r} stands where an instruction was expected")
        opcode, *modifiers = cursor.take().split(".")
        operands = Operands(cursor, self._lookup).all()
        operands = tuple(self._scoped(o) for o in operands)
        function.body.append(Instruction(opcode, tuple(modifiers), operands, guard, line, self._source))

    def _symbol(self, symbol: Symbol) -> Symbol:
        """Name the variable of the innermost scope that a symbol means."""
        return Symbol(self._lookup("&" + symbol.name) or symbol.name, symbol.offset)

    def _scoped(self, operand: Operand) -> Operand:
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            return Address(self._symbol(operand.base), operand.offset, operand.coordinates)
        if isinstance(operand, Arguments):
            return Arguments(tuple(self._scoped(i) for i in operand.items))
        return operand


def _size(contents: "list[int | Symbol]") -> int:
    return sum(8 if isinstance(item, Symbol) else 1 for item in contents)
