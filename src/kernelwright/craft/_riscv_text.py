"""Which RISC-V assembly is taken: computations, memory and control within the program, nothing of the system.

Covers: system calls, control registers, raw instruction words, files that are included, macros, symbols from outside.
Does not cover: what a program computes as an address and jumps to with `ret`; it runs under an emulator whose process
may write its own folder only.
"""

import re

from ._assembler import AssemblyError

_SCALAR_WORDS = """
add addi addw addiw sub subw mul mulw mulh mulhu mulhsu div divu divw divuw rem remu remw remuw and andi or ori xor xori
sll slli sllw slliw srl srli srlw srliw sra srai sraw sraiw slt slti sltu sltiu lui li la lla mv not neg negw sext.w
zext.w seqz snez sltz sgtz lb lbu lh lhu lw lwu ld sb sh sw sd beq bne blt bge bltu bgeu bgt ble bgtu bleu beqz bnez
blez bgez bltz bgtz j call tail ret nop
"""
_SCALAR = frozenset(_SCALAR_WORDS.split())
_FLOAT = re.compile(r"f(lw|ld|sw|sd|li|mv|abs|neg|(n?m(add|sub)|add|sub|mul|div|sqrt|min|max|eq|lt|le|gt|ge|class)|"
                    r"sgnj[nx]?|cvt)(\.[a-z]+)*")  # fmt: skip
_VECTOR = re.compile(r"v[a-z0-9]+(\.[a-z0-9]+)*")
_DIRECTIVES = {
    ".text", ".data", ".globl", ".global", ".align", ".balign", ".p2align", ".type", ".size", ".section", ".option",
    ".attribute", ".file", ".ident", ".word", ".float", ".zero", ".local",
}  # fmt: skip
_DATA = {".word", ".float", ".zero"}
_SECTIONS = re.compile(r"\.(text|data|sdata|rodata|srodata|note)\b")
_NAMES = re.compile(r"%?[.A-Za-z_$][\w.$]*")
_KNOWN = re.compile(
    r"x\d+|zero|ra|sp|gp|tp|[ast]\d+|f[ast]?\d+|v\d+|v0\.t|e(8|16|32|64)|mf?\d|t[au]|m[au]|r(ne|tz|dn|up|mm)|dyn|"
    r"%(hi|lo|pcrel_hi|pcrel_lo)|expf"
)
_LABEL = re.compile(r"\s*([.A-Za-z_$][\w.$]*|\d+):")


def check_text(text: str) -> None:
    """Refuse a text that holds more than computations.

    Raises:
        AssemblyError: every line at fault.

    Example:
        >>> check_text(".globl kernel\\nkernel:\\n  li a7, 93\\n  ecall")
        Traceback (most recent call last):
        kernelwright.craft._assembler.AssemblyError: line 4: 'ecall' is not taken; expected computations, ...
    """
    errors: list[tuple[int, str]] = []
    statements, labels = [], set()
    for number, full in enumerate(text.splitlines(), 1):
        for part in full.partition("#")[0].split(";"):
            rest = part
            while match := _LABEL.match(rest):
                labels.add(match[1])
                rest = rest[match.end() :]
            if rest.strip():
                statements.append((number, rest.strip()))
    in_text = True
    for number, statement in statements:
        name, _, operands = statement.replace("\t", " ").partition(" ")
        if name.startswith("."):
            message, in_text = _directive(name, operands, in_text)
        else:
            message = _instruction(name.lower(), operands, labels)
        if message:
            errors.append((number, message))
    if "kernel" not in labels:
        errors.append((1, "there is no label 'kernel'; the program starts there"))
    elif not any(s.split() in ([".globl", "kernel"], [".global", "kernel"]) for _, s in statements):
        errors.append((1, "the label 'kernel' is not visible from outside; write .globl kernel"))
    if errors:
        raise AssemblyError(sorted(errors))


def _directive(name: str, operands: str, in_text: bool) -> tuple[str, bool]:
    if name not in _DIRECTIVES:
        return f"directive {name!r} is not taken; expected sections, labels and data", in_text
    if name in _DATA and in_text:
        return f"{name} stands among instructions; put data into .section .rodata", in_text
    if name == ".section":
        if not _SECTIONS.match(operands.strip()):
            return f"section {operands[:40]!r} is not taken; expected .text, .data or .rodata", in_text
        return (
            "flags of sections are not taken" if "x" in operands.partition('"')[2] else ""
        ), ".text" in operands
    if name in {".text", ".data"}:
        return "", name == ".text"
    return "", in_text


def _instruction(name: str, operands: str, labels: set[str]) -> str:
    if name == "jr" and operands.strip() == "ra":
        return ""
    if not (name in _SCALAR or _FLOAT.fullmatch(name) or _VECTOR.fullmatch(name)):
        return f"{name!r} is not taken; expected computations, loads, stores, branches and vectors"
    for word in _NAMES.findall(operands):
        if word not in labels and not _KNOWN.fullmatch(word) and not re.fullmatch(r"x?[0-9a-f]*[bf]?", word):
            return f"{word[:40]!r} is no register and no label of this program"
    return ""
