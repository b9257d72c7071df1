"""Programs that try single instructions: arithmetic, conversions, approximations, and what lanes do together.

Each instruction is run on many lanes of random operands, corners among them; the executor's answer is kept with the
launch. What ptxas refuses for the device is left out; what the executor refuses is named.
"""

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tests.executor import packed
from tests.executor.reals import FORMATS
from tests.executor.semantics import Case, ptx, value

from kernelwright.executor import Module, NotExecutedError, Options
from kernelwright.executor._layout import Layout
from kernelwright.executor._parser import parse
from kernelwright.executor._translate import translate

from .launches import label

LANES, MANY = 64, 1024
A_KERNEL = 100
_WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "f16x2": 32, "bf16x2": 32}


def plain(text: str, into: int, *operands: int | str) -> Case:
    """Return an instruction without a meaning of its own; a floating operand by its type's name."""
    widths = tuple(_WIDTHS[o] if isinstance(o, str) else o for o in operands)
    formats = tuple(FORMATS.get(o.removesuffix("x2")) if isinstance(o, str) else None for o in operands)
    return Case(text, (into, *widths), lambda *_: 0, None, formats)


def approximations() -> Iterator[Case]:
    """Functions whose results the ISA bounds and does not fix."""
    for op in ("ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt"):
        for ftz in ("", ".ftz"):
            yield plain(f"{op}.approx{ftz}.f32 {{d}}, {{a}};", 32, "f32")
    yield plain("tanh.approx.f32 {d}, {a};", 32, "f32")
    for how, ftz in product(("approx", "full"), ("", ".ftz")):
        yield plain(f"div.{how}{ftz}.f32 {{d}}, {{a}}, {{b}};", 32, "f32", "f32")
    yield plain("rcp.approx.ftz.f64 {d}, {a};", 64, "f64")
    yield plain("rsqrt.approx.f64 {d}, {a};", 64, "f64")
    yield plain("rsqrt.approx.ftz.f64 {d}, {a};", 64, "f64")
    for kind in ("f16", "bf16", "f16x2", "bf16x2"):
        ftz = "" if kind.startswith("f") else ".ftz"
        yield plain(f"ex2.approx{ftz}.{kind} {{d}}, {{a}};", _WIDTHS[kind], kind)
        yield plain(f"tanh.approx.{kind} {{d}}, {{a}};", _WIDTHS[kind], kind)


def conversions() -> Iterator[Case]:
    """`cvt` in the forms that the random ones leave out."""
    small, modes = ("e4m3x2", "e5m2x2"), ("rni", "rzi", "rmi", "rpi")
    for kind, relu in product(small, ("", ".relu")):
        yield plain(f"cvt.rn{relu}.f16x2.{kind} {{d}}, {{a}};", 32, 16)
        yield plain(f"cvt.rn.satfinite{relu}.{kind}.f16x2 {{d}}, {{a}};", 16, "f16x2")
        yield plain(f"cvt.rn.satfinite{relu}.{kind}.f32 {{d}}, {{a}}, {{b}};", 16, "f32", "f32")
    for into, mode, relu in product(("f16", "bf16"), ("rn", "rz"), ("", ".relu")):
        yield plain(f"cvt.{mode}{relu}.{into}.f32 {{d}}, {{a}};", 16, "f32")
    for mode, kind, sat in product(modes, ("f16", "bf16", "f32", "f64"), ("", ".sat")):
        yield plain(f"cvt.{mode}{sat}.{kind}.{kind} {{d}}, {{a}};", _WIDTHS[kind], kind)
    reals = ("f16", "bf16", "f32", "f64")
    whole = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    for of, into in product(reals, reals):
        for mode, ftz, sat in product(("", ".rn", ".rz", ".rm", ".rp"), ("", ".ftz"), ("", ".sat")):
            yield plain(f"cvt{mode}{ftz}{sat}.{into}.{of} {{d}}, {{a}};", _WIDTHS[into], of)
    for of, into, mode in product(reals, whole, modes):
        wide = max(16, int(into[1:]))
        for ftz, sat in product(("", ".ftz"), ("", ".sat")):
            yield plain(f"cvt.{mode}{ftz}{sat}.{into}.{of} {{d}}, {{a}};", wide, of)
    for of, into in product(whole, reals):
        for mode in ("rn", "rz"):
            yield plain(f"cvt.{mode}.{into}.{of} {{d}}, {{a}};", _WIDTHS[into], max(16, int(of[1:])))
    for of, into, sat in product(whole, whole, ("", ".sat")):
        if "8" in of + into:
            yield plain(
                f"cvt{sat}.{into}.{of} {{d}}, {{a}};", 32 if into[1:] != "64" else 64, max(32, int(of[1:]))
            )
    for kind, sat in product(("u8", "s8", "u16", "s16"), (".sat",)):
        more = ".b32" if kind.endswith("8") else ""
        third = ", {c}" if more else ""
        yield plain(
            f"cvt.pack{sat}.{kind}.s32{more} {{d}}, {{a}}, {{b}}{third};", 32, 32, 32, *([32] if more else [])
        )


def rarer() -> Iterator[Case]:
    """Arithmetic that the random ones leave out."""
    for kind in ("f16", "f16x2", "bf16", "bf16x2"):
        w = _WIDTHS[kind]
        for op in ("min", "max"):
            for words in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
                yield plain(f"{op}{words}.{kind} {{d}}, {{a}}, {{b}};", w, kind, kind)
        for op in ("neg", "abs"):
            for ftz in ("", ".ftz"):
                yield plain(f"{op}{ftz}.{kind} {{d}}, {{a}};", w, kind)
        for op, words in product(("add", "sub", "mul"), (".rn", ".rn.ftz", ".rn.ftz.sat", "")):
            yield plain(f"{op}{words}.{kind} {{d}}, {{a}}, {{b}};", w, kind, kind)
        for words in (".rn.ftz", ".rn.ftz.relu", ".rn.oob", ".rn.oob.relu"):
            yield plain(f"fma{words}.{kind} {{d}}, {{a}}, {{b}}, {{c}};", w, kind, kind, kind)
        for how in (
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "equ",
            "neu",
            "ltu",
            "leu",
            "gtu",
            "geu",
            "num",
            "nan",
        ):
            if not kind.endswith("x2"):
                text = f"{{{{ .reg .pred q; setp.{how}.{kind} q, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, q; }}}}"
                yield plain(text, 32, kind, kind)
            else:
                yield plain(f"set.{how}.{kind}.{kind} {{d}}, {{a}}, {{b}};", 32, kind, kind)
                yield plain(f"set.{how}.u32.{kind[:-2]} {{d}}, {{a}}, {{b}};", 32, kind[:-2], kind[:-2])
    for op, words in product(("min", "max"), (".xorsign.abs", ".NaN.xorsign.abs", ".ftz.xorsign.abs")):
        yield plain(f"{op}{words}.f32 {{d}}, {{a}}, {{b}};", 32, "f32", "f32")
    for kind in ("f32", "f64"):
        yield plain(f"copysign.{kind} {{d}}, {{a}}, {{b}};", _WIDTHS[kind], kind, kind)
        for op in ("add", "sub", "mul", "mad"):
            three = op == "mad"
            for words in ("", ".ftz", ".sat") if kind == "f32" and not three else ("",):
                mode = ".rn" if three else ""
                given = "{a}, {b}, {c}" if three else "{a}, {b}"
                yield plain(f"{op}{mode}{words}.{kind} {{d}}, {given};", _WIDTHS[kind], *[kind] * (2 + three))
        for op in ("neg", "abs"):
            yield plain(f"{op}.ftz.f32 {{d}}, {{a}};", 32, "f32")
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield plain(f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};", 32, 32, 32, 32)
    for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        for da, sat in product(("s32.s32.s32", "u32.u32.u32", "s32.u32.s32"), ("", ".sat")):
            yield plain(f"{op}.{da}{sat} {{d}}, {{a}}.b0, {{b}}.h1;", 32, 32, 32)
    for op in ("vadd2", "vsub2", "vabsdiff2", "vavrg2", "vadd4", "vabsdiff4", "vmax4", "vavrg4"):
        yield plain(f"{op}.s32.s32.s32 {{d}}, {{a}}, {{b}}, {{c}};", 32, 32, 32, 32)
    for kind in ("u32", "s32", "u64", "s64"):
        w = int(kind[1:])
        for op in ("mad.hi", "mad.lo"):
            text = f"{{{{ .reg .b{w} x; {op}.cc.{kind} x, {{a}}, {{b}}, {{c}}; addc.{kind} {{d}}, x, 0; }}}}"
            yield plain(text, w, w, w, w)
            later = op.replace("mad", "madc")
            text = f"{{{{ .reg .b{w} x; add.cc.{kind} x, {{a}}, {{b}}; {later}.{kind} {{d}}, {{a}}, {{b}}, {{c}}; }}}}"
            yield plain(text, w, w, w, w)
    for kind, op in product(("b16", "u16", "s16"), ("shl", "shr")):
        if op == "shr" or kind == "b16":
            yield plain(f"{op}.{kind} {{d}}, {{a}}, {{b}};", 16, 16, 32)
    for mode, side in product(("clamp", "wrap"), "lr"):
        yield plain(f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", 32, 32, 32, 32)
    for kind in ("b32", "b64"):
        w = int(kind[1:])
        for op in ("shl.b", "shr.u", "shr.s"):
            yield plain(f"{op}{w} {{d}}, {{a}}, {{b}};", w, w, 32)
    for kind in ("u32", "s32", "u64", "s64"):
        w = int(kind[1:])
        yield plain(f"bfe.{kind} {{d}}, {{a}}, {{b}}, {{c}};", w, w, 32, 32)


def together() -> Iterator[Case]:
    """What the lanes of a warp do together."""
    rng = random.Random(11)
    for how in ("up", "down", "bfly", "idx"):
        for _ in range(6):
            width = rng.choice([32, 16, 8, 4, 2])
            clamp = (32 - width) << 8 | (0 if how == "up" else 31)
            by = rng.choice(["{b}", str(rng.randrange(40))])
            text = (f"{{{{ .reg .pred q; .reg .b32 x; shfl.sync.{how}.b32 x|q, {{a}}, {by}, {clamp}, -1; "
                    "selp.b32 {d}, 0x10000000, 0, q; xor.b32 {d}, {d}, x; }}")  # fmt: skip
            yield plain(text, 32, 32, 32)
        text = f"{{{{ shfl.sync.{how}.b32 {{d}}, {{a}}, {{b}}, {{c}}, -1; }}}}"
        yield plain(text, 32, 32, 32, 32)
    for how in ("all", "any", "uni"):
        text = (f"{{{{ .reg .pred q; setp.lt.s32 q, {{a}}, {{b}}; vote.sync.{how}.pred q, q, -1; "
                "selp.b32 {d}, 1, 0, q; }}")  # fmt: skip
        yield plain(text, 32, 32, 32)
    yield plain("{{ .reg .pred q; setp.lt.s32 q, {a}, {b}; vote.sync.ballot.b32 {d}, q, -1; }}", 32, 32, 32)
    for w in (32, 64):
        masked = f"and.b{w} x, {{a}}, 3;"
        yield plain(f"{{{{ .reg .b{w} x; {masked} match.any.sync.b{w} {{d}}, x, -1; }}}}", 32, w)
        text = (f"{{{{ .reg .b{w} x; .reg .pred q; {masked} match.all.sync.b{w} {{d}}|q, x, -1; "
                "@q xor.b32 {d}, {d}, 5; }}")  # fmt: skip
        yield plain(text, 32, w)
    for op, kind in product(("add", "min", "max"), ("u32", "s32")):
        yield plain(f"redux.sync.{op}.{kind} {{d}}, {{a}}, -1;", 32, 32)
    for op in ("and", "or", "xor"):
        yield plain(f"redux.sync.{op}.b32 {{d}}, {{a}}, -1;", 32, 32)
    yield plain("{{ .reg .pred q; elect.sync {d}|q, -1; @q xor.b32 {d}, {d}, 64; }}", 32)
    yield plain("activemask.b32 {d};", 32)
    yield plain("movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};", 32, 32)
    for op in ("and", "or"):
        text = (f"{{{{ .reg .pred q; setp.ne.u32 q, {{a}}, 0; bar.red.{op}.pred q, 0, q; "
                "selp.b32 {d}, 1, 0, q; }}")  # fmt: skip
        yield plain(text, 32, 32)
    yield plain("{{ .reg .pred q; setp.lt.s32 q, {a}, 0; bar.red.popc.u32 {d}, 0, q; }}", 32, 32)


def accepted(cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
    """Return the cases that ptxas takes for an H100 and the executor executes, and those that only ptxas takes."""
    known = _assembles(list(cases))
    kept, refused = [], []
    for n in range(0, len(known), A_KERNEL):
        part = known[n : n + A_KERNEL]
        while part:
            try:
                parsed = parse(ptx(part))
                translate(parsed, Layout(parsed), "fuzz")
                break
            except NotExecutedError as error:
                why = str(error)
            found = re.search(r"line (\d+)", why)
            assert found, why
            line = int(found[1])
            at = _case_at(part, line)
            refused.append(part.pop(at).text)
        kept += part
    return kept, refused


def _case_at(cases: Sequence[Case], line: int) -> int:
    """Return which case a line of the PTX belongs to."""
    starts = [n for n, text in enumerate(ptx(cases).splitlines(), 1) if text == "{"][1:]
    return max(n for n, start in enumerate(starts) if start <= line)


def _assembles(cases: list[Case]) -> list[Case]:
    """Return the cases that ptxas takes, each by itself where a kernel of many is refused."""
    while cases:
        with tempfile.TemporaryDirectory(prefix="kernelwright-ptxas-") as name:
            (Path(name) / "k.ptx").write_text(ptx(cases))
            done = subprocess.run(["ptxas", "-arch=sm_90", "-O0", "k.ptx", "-o", "k.cubin"], cwd=name, text=True,
                                  capture_output=True, check=False)  # fmt: skip
        lines = {int(n) for n in re.findall(r"line (\d+); (?:error|fatal)", done.stdout + done.stderr)}
        if not done.returncode:
            return cases
        assert lines, done.stderr[:2000]
        bad = {_case_at(cases, line) for line in lines}
        cases = [c for n, c in enumerate(cases) if n not in bad]
    return cases


def run(name: str, cases: Sequence[Case], lanes: int, seed: int) -> None:
    """Execute cases, a kernel for every hundred."""
    rng = random.Random(seed)
    for first in range(0, len(cases), A_KERNEL):
        part = cases[first : first + A_KERNEL]
        given = np.zeros((len(part), 3, lanes), np.uint64)
        got = np.zeros((len(part), lanes), np.uint64)
        for n, c in enumerate(part):
            for k, width in enumerate(c.widths[1:]):
                kind = c.operand_formats[k] if c.operand_formats else None
                given[n, k] = [value(rng, width, kind) for _ in range(lanes)]
        facts: dict[str, Any] = {"texts": [c.text for c in part], "widths": [c.widths for c in part]}
        kernel = Module.load(ptx(part, lanes))["fuzz"]
        with label(f"instructions/{name}/{first}", lanes=lanes, **facts):
            done = kernel(1, lanes, [given, got], options=Options(races=False, count=False))
        assert done.ok, [str(f) for f in done.findings]


def random_cases(count: int, seed: int) -> list[Case]:
    """Return random instructions of all families, each text once."""
    rng = random.Random(seed)
    known: dict[str, Case] = {}
    while len(known) < count:
        made = packed.case(rng)
        if "f32x2" not in made.text:
            known[made.text] = made
    return list(known.values())


def record(count: int, seed: int) -> list[str]:
    """Execute all; return the instructions that the executor refuses and the device has."""
    refused = []
    for name, cases, lanes in (
        ("random", random_cases(count, seed), LANES), ("conversions", list(conversions()), LANES),
        ("approximations", list(approximations()), MANY), ("rarer", list(rarer()), LANES),
        ("together", list(together()), LANES),
    ):  # fmt: skip
        cases, more = accepted(list({c.text: c for c in cases}.values()))
        refused += more
        print(f"{name}: {len(cases)} instructions, {len(more)} refused", flush=True)
        run(name, cases, lanes, seed)
    return refused
