"""Video instructions on the four bytes or two halves of a word: what intrinsics such as `__vsadu4` become.

Covers: vadd, vsub, vavrg, vabsdiff, vmin, vmax, vset of 4 and 2, saturated or added up.
Does not cover: chosen bytes and masks of operands (`%r1.b0`, `.b3210`); the scalar instructions (`vadd`, `vmad` ...).
"""

from ._arithmetic import Handler, flag
from ._ir import Instruction
from ._writer import Modifiers, Writer, refused

_RESULTS = {
    "vadd": "p + q", "vsub": "p - q", "vavrg": "(p + q + (p + q >= 0)) >> 1", "vabsdiff": "p < q ? q - p : p - q",
    "vmin": "p < q ? p : q", "vmax": "p < q ? q : p",
}  # fmt: skip
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def video(w: Writer, i: Instruction) -> None:
    """vadd4, vsub2 ... Source: PTX ISA, "Video Instructions"."""
    mods = Modifiers(i)
    name, parts = i.opcode[:-1], int(i.opcode[-1])
    how = mods.take(*_COMPARED) if name == "vset" else ""
    adds, saturates = mods.take("add"), mods.take("sat")
    kinds = [kind for kind in i.modifiers if kind in {"u32", "s32"}]
    mods.drop(kinds)
    mods.done()
    into, of_a, of_b = ("u32", *kinds) if how else kinds
    if len(i.operands) != 4 or (saturates and (adds or how)):
        raise refused(i)
    types = ", ".join(f"{'u' if kind == 'u32' else ''}int{32 // parts}_t" for kind in (of_a, of_b, into))
    value = f"p {_COMPARED[how]} q" if how else _RESULTS[name]
    dest, *sources = i.operands
    each = f"[](int p, int q) {{ return int({value}); }}"
    call = f"return video<{types}, {flag(saturates)}, {flag(adds)}>(x, y, z, {each});"
    values = ", ".join(w.read(s, "b32") for s in sources)
    w.headers.add("video.h")
    w.write(
        dest,
        f"map<uint32_t, uint32_t, uint32_t, uint32_t>({values}, [](auto x, auto y, auto z) {{ {call} }})",
        "b32",
    )


HANDLERS: dict[str, Handler] = dict.fromkeys(
    (f"{name}{parts}" for name in (*_RESULTS, "vset") for parts in (2, 4)), video
)
