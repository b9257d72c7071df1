"""PTX → shared memory that a kernel reads and nothing writes: its bytes are whatever another kernel left.

Covers: arrays of fixed size that no store, atomic, copy or call gets an address of. What is compiled without
optimisation still has such reads; otherwise the compiler leaves them out.
Does not cover: arrays that are written in part, which the executor looks after; dynamic ones, which share their place.
"""

import re

_SHARED = re.compile(
    r"^\s*(?:\.(?:visible|weak)\s+)?\.shared\b[^;]*?\s([\w$]+)(?:\[[^\]]*\])*\s*;", re.MULTILINE
)
_FUNCTION = re.compile(r"^\s*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b", re.MULTILINE)
_INSTRUCTION = re.compile(
    r"(?:^|[{}:;])\s*(?:@!?%\w+\s+)?([a-z][\w]*)((?:[.:][\w:]+)*)\s+([^;]*)(?=;)", re.MULTILINE
)
_WORD = re.compile(r"%\w+|[A-Za-z_$][\w$]*")
_READS = {"ld", "ldu", "ldmatrix", "prefetch"}
_ADDRESSES = {
    "mov",
    "add",
    "sub",
    "mul",
    "mad",
    "shl",
    "and",
    "or",
    "xor",
    "selp",
    "cvt",
    "cvta",
    "min",
    "max",
}
_NOTHING = {"setp", "bra", "ret", "bar"}


def unwritten_shared(ptx: str) -> str:
    """Return the name of shared memory that is read and that nothing writes; empty if there is none.

    Example:
        >>> text = ".entry k() {\\n.shared .align 4 .b8 a[64];\\nmov.u32 %r1, a;\\nld.shared.u32 %r2, [%r1+4];\\n"
        >>> unwritten_shared(text + "}"), unwritten_shared(text + "st.shared.u32 [%r1], %r3;\\n}")
        ('a', '')
    """
    names = {name: True for name in _SHARED.findall(ptx)}
    read, written = set[str](), set[str]()
    for body in _FUNCTION.split(ptx):
        lines = [(found[1], found[3]) for found in _INSTRUCTION.finditer(body)]
        held: dict[str, set[str]] = {name: {name} for name in names}
        for _ in range(2):  # an address may be carried round a loop
            for opcode, operands in lines:
                into, _, rest = operands.partition(",")
                found = _held(held, rest if opcode in _ADDRESSES | _READS else operands)
                if opcode in _READS:
                    read |= found
                elif opcode in _ADDRESSES:
                    held[into.strip()] = held.get(into.strip(), set()) | found
                elif opcode not in _NOTHING:
                    written |= found
    return next((name for name in names if name in read - written), "")


def _held(held: dict[str, set[str]], operands: str) -> set[str]:
    return set().union(*(held.get(word, set()) for word in _WORD.findall(operands)))
