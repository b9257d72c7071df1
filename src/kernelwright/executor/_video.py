"""Video instructions: on words, or on chosen bytes and halves of them, and on four bytes or two halves at a time.

Covers: vadd, vsub, vabsdiff, vmin, vmax, vset, vshl, vshr, vmad; of them and vavrg the forms of 4 and 2.
Does not cover: `.min` and `.max` of what lies beyond the destination's type, which the ISA leaves open: such a value
stops the launch (`refused`). Forms of words for which ptxas makes other code than the ISA's pseudocode means, so that a
device answers otherwise (`_departs`, and of `vmad` what is shifted or saturated of unsigned words): they are refused.

Source: PTX ISA, "Video Instructions": `partSelectSignExtend`, `optSaturate`, `optSecOp`, `optMerge`; which forms
depart, from an NVIDIA H100 (`docs/executor.md`, "Against a device").
"""

from collections.abc import Sequence

from ._arithmetic import Handler, flag
from ._ir import Instruction, Operand, Part, Register
from ._writer import Modifiers, Writer, refused

_RESULTS = {
    "vadd": "p + q", "vsub": "p - q", "vavrg": "(p + q + (p + q >= 0)) >> 1", "vabsdiff": "p < q ? q - p : p - q",
    "vmin": "p < q ? p : q", "vmax": "p < q ? q : p",
}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_KINDS = {"u32", "s32"}
_DEPARTS = "ptxas and the PTX ISA give different results"


def _types(mods: Modifiers, i: Instruction) -> list[str]:
    kinds = [kind for kind in i.modifiers if kind in _KINDS]
    mods.drop(kinds)
    return kinds


def _word(w: Writer, i: Instruction, operand: Operand) -> tuple[str, str, bool]:
    """Return an operand's whole word as C++, what is chosen of it, and whether it is negated."""
    if isinstance(operand, Part):
        return w.read(operand.register, "b32"), operand.chosen, operand.negative
    if isinstance(operand, Register) and operand.negated:
        raise refused(i)
    return w.read(operand, "b32"), "", False


def _piece(i: Instruction, word: str, kind: str, chosen: str) -> str:
    """Return the byte, half or word that is chosen, sign- or zero-extended, as C++."""
    bits, at = {"b": 8, "h": 16, "": 32}[chosen[:1]], int(chosen[1:] or 0)
    if len(chosen) > 2 or (at + 1) * bits > 32:
        raise refused(i)
    return f"int64_t({'u' if kind == 'u32' else ''}int{bits}_t({word} >> {at * bits}))"


def _map(words: Sequence[str], body: str) -> str:
    names = ("x", "y", "z")[: len(words)]
    types = ", ".join(["uint32_t"] * (len(words) + 1))
    return f"map<{types}>({', '.join(words)}, [&]({', '.join(f'auto {n}' for n in names)}) {{ {body} }})"


def word(w: Writer, i: Instruction) -> None:
    """vadd, vsub, vabsdiff, vmin, vmax, vset, vshl, vshr."""
    mods, shifts = Modifiers(i), i.opcode in {"vshl", "vshr"}
    how = mods.take(*_COMPARED) if i.opcode == "vset" else ""
    wraps = mods.take("clamp", "wrap") if shifts else ""
    second, saturates = mods.take("add", "min", "max"), mods.take("sat")
    kinds = _types(mods, i)
    mods.done()
    into, of_a, of_b = ("u32", *kinds) if how else kinds
    dest, *sources = i.operands
    merged = dest.chosen if isinstance(dest, Part) else ""
    words = [_word(w, i, s) for s in sources]
    needs = 3 if second or merged else 2
    if (
        (shifts and (not wraps or of_b != "u32"))
        or (i.opcode == "vset" and (not how or saturates))
        or (second and merged)
        or not needs <= len(words) <= 3
        or any(negative for _, _, negative in words)
        or (len(words) == 3 and words[2][1])
        or (isinstance(dest, Part) and dest.negative)
    ):
        raise refused(i)
    whole = not all(chosen for _, chosen, _ in words[:2])
    if _departs(i.opcode, kinds, merged, second, saturates=bool(saturates), whole=whole):
        raise refused(i, _DEPARTS)
    w.headers.add("video.h")
    value = f"p {_COMPARED[how]} q" if how else _RESULTS.get(i.opcode, "")
    if shifts:
        value = f"shift_word(p, q, {flag(i.opcode == 'vshl')}, {flag(wraps == 'wrap')})"
    p, q = (_piece(i, n, k, s) for n, k, (_, s, _) in zip("xy", (of_a, of_b), words, strict=False))
    third = "z" if len(words) == 3 else "0"
    signed = flag(into == "s32")
    then = f"SECOND_{(second or 'none').upper()}"
    end = f"end_word<{_bits(i, merged)}, {_at(merged)}, {signed}, {flag(saturates)}, {then}>"
    body = f"const int64_t p = {p}, q = {q}; return {end}(int64_t({value}), {third}, &beyond, lane++);"
    w.emit("Mask beyond = 0; int lane = 0;")
    w.emit(f"const b32 made = {_map([word for word, _, _ in words], body)};")
    if second in {"min", "max"}:
        w.emit(f"if (beyond & {w.mask}) stop(w, 6, {w.site(i)});")
    w.write(dest.register if isinstance(dest, Part) else dest, "made", "b32")


def _departs(
    opcode: str, kinds: Sequence[str], merged: str, second: str, *, saturates: bool, whole: bool
) -> bool:
    """Tell whether a device answers otherwise than the ISA's pseudocode.

    A merge into the upper half takes that half of the result; a merge saturates by another type; sums into an unsigned
    word saturate as signed ones; `vset` of signed operands compares with `c` as with a signed number.
    """
    if merged:
        return saturates or merged == "h1"
    if opcode == "vset":
        return second in {"min", "max"} and "s32" in kinds
    return saturates and whole and opcode in {"vadd", "vsub"} and kinds[0] == "u32"


def _bits(i: Instruction, merged: str) -> int:
    _piece(i, "", "u32", merged)
    return {"b": 8, "h": 16, "": 32}[merged[:1]]


def _at(merged: str) -> int:
    return {"b": 8, "h": 16, "": 0}[merged[:1]] * int(merged[1:] or 0)


def multiply(w: Writer, i: Instruction) -> None:
    """vmad: a product and a sum, exact, shifted and saturated at the end."""
    mods = Modifiers(i)
    one, saturates = mods.take("po"), mods.take("sat")
    scale = int((mods.take("shr7", "shr15") or "shr0")[3:])
    kinds = _types(mods, i)
    mods.done()
    _, of_a, of_b = kinds
    dest, *sources = i.operands
    words = [_word(w, i, s) for s in sources]
    (_, part_a, minus_a), (_, part_b, minus_b), (_, part_c, minus_c) = words
    minus = minus_a != minus_b
    if part_c or (minus and minus_c) or (one and (minus_a or minus_b or minus_c)):
        raise refused(i)
    unsigned_word = any(k == "u32" and not n for k, n in ((of_a, part_a), (of_b, part_b)))
    if (scale or saturates) and (unsigned_word or ("s32" not in {of_a, of_b} and not minus)):
        raise refused(i, _DEPARTS)  # a device takes both the word and `c` as signed
    signed = "s32" in {of_a, of_b} or minus or minus_c
    w.headers.add("video.h")
    given = f"{_piece(i, 'x', of_a, part_a)}, {_piece(i, 'y', of_b, part_b)}, z"
    flags = ", ".join(flag(x) for x in (minus, minus_c, one, signed, saturates))
    w.write(
        dest, _map([word for word, _, _ in words], f"return multiply_word<{flags}, {scale}>({given});"), "b32"
    )


def lanes(w: Writer, i: Instruction) -> None:
    """vadd4, vsub2 ...: the same on four bytes or two halves."""
    mods = Modifiers(i)
    name, parts = i.opcode[:-1], int(i.opcode[-1])
    how = mods.take(*_COMPARED) if name == "vset" else ""
    adds, saturates = mods.take("add"), mods.take("sat")
    kinds = _types(mods, i)
    mods.done()
    into, of_a, of_b = ("u32", *kinds) if how else kinds
    dest, *sources = i.operands
    words = [_word(w, i, s) for s in sources]
    if len(words) != 3 or (saturates and (adds or how)) or any(n for _, _, n in words) or words[2][1]:
        raise refused(i)
    letter = "b" if parts == 4 else "h"
    picks = [
        _picks(i, chosen, letter, parts, first)
        for (_, chosen, _), first in zip(words[:2], (0, parts), strict=True)
    ]
    mask = _mask(i, dest, letter, parts)
    types = ", ".join(f"{'u' if kind == 'u32' else ''}int{32 // parts}_t" for kind in (of_a, of_b, into))
    value = f"p {_COMPARED[how]} q" if how else _RESULTS[name]
    each = f"[](int p, int q) {{ return int({value}); }}"
    chosen = ", ".join(f"picked<{32 // parts}>(x, y, 0x{n:x})" for n in picks)
    call = f"return video<{types}, {flag(saturates)}, {flag(adds)}, {mask}>({chosen}, z, {each});"
    w.headers.add("video.h")
    w.write(
        dest.register if isinstance(dest, Part) else dest, _map([word for word, _, _ in words], call), "b32"
    )


def _picks(i: Instruction, chosen: str, letter: str, parts: int, first: int) -> int:
    """Return which of the two operands' parts each part is, four bits each, from the lowest."""
    numbers = [int(n) for n in chosen[1:]] if chosen else [*range(first, first + parts)][::-1]
    if (chosen and chosen[0] != letter) or len(numbers) != parts or max(numbers) >= 2 * parts:
        raise refused(i)
    return sum(n << 4 * at for at, n in enumerate(reversed(numbers)))


def _mask(i: Instruction, dest: Operand, letter: str, parts: int) -> int:
    """Return the parts of the destination that are written or added, one bit each."""
    if not isinstance(dest, Part):
        return (1 << parts) - 1
    numbers = [int(n) for n in dest.chosen[1:]]
    if (
        dest.negative
        or dest.chosen[:1] != letter
        or sorted(set(numbers), reverse=True) != numbers
        or numbers[0] >= parts
    ):
        raise refused(i)
    return sum(1 << n for n in numbers)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys((f"{name}{parts}" for name in (*_RESULTS, "vset") for parts in (2, 4)), lanes),
    **dict.fromkeys(("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr"), word), "vmad": multiply,
}  # fmt: skip
