"""Programs that ask a device what surprised: alignment of TMA's coordinates, fields of bits, division by zero.

Coordinates that a device does not take end the process that launches, so each is a launch of its own.
"""

from itertools import product

import numpy as np

from kernelwright.executor import Module, Options, TensorMap, Uninitialised

from .instructions import LANES, accepted, plain, run
from .launches import label
from .matrices import HEAD

PLACES = [("uint8", c) for c in (16, -16, 8, 4, 1)] + [("uint16", c) for c in (8, 4, 1)] + [
    ("float32", c) for c in (4, -4, 2, 1)]  # fmt: skip
"""Element types and innermost coordinates."""
ROWS = (0, 3, -2)

COPY = (
    HEAD
    + """.param .align 64 .b8 m[128], .param .u64 out, .param .u32 row, .param .u32 column) {
.reg .b64 %m, %p<4>; .reg .b32 %r<8>; .reg .pred %first, %over;
.shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;
mov.b64 %m, m; cvta.param.u64 %m, %m; mov.u32 %r0, %tid.x; setp.eq.u32 %first, %r0, 0;
@!%first bra READY;
mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
ld.param.u32 %r6, [column]; ld.param.u32 %r7, [row];
@!%first bra ISSUED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%m, {%r6, %r7}], [bar];
ISSUED:
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %over, [bar], 0;
@!%over bra WAIT;
mov.u32 %r2, tile; ld.param.u64 %p1, [out]; shl.b32 %r3, %r0, 2; cvt.u64.u32 %p3, %r3; add.u64 %p1, %p1, %p3;
add.u32 %r2, %r2, %r3; ld.shared.b32 %r4, [%r2]; st.global.b32 [%p1], %r4;
ret;
}
"""
)


def record_coordinates() -> None:
    """Copy tiles that begin at places that are multiples of 16 bytes, and at others."""
    kernel = Module.load(COPY)["k"]
    for (kind, column), row in product(PLACES, ROWS):
        columns = 128 // np.dtype(kind).itemsize
        x = np.random.default_rng(0).integers(1, 200, (12, 144)).astype(kind)
        out = np.zeros(1024, np.uint8)
        with label(f"probes/tma/{kind}/column{column}/row{row}"):
            kernel(1, 256, [TensorMap(x, (8, columns), swizzle=128), Uninitialised(out), row, column],
                   options=Options(races=False, count=False))  # fmt: skip


def record_fields(seed: int) -> None:
    """Extract and insert fields of bits whose place and size stand in registers, small ones above all."""
    made = []
    for mask in (31, 63, 127, 255):
        small = f".reg .b32 p, n; and.b32 p, {{b}}, {mask}; and.b32 n, {{c}}, {mask};"
        for kind in ("u32", "s32", "u64", "s64"):
            made.append(
                plain(
                    f"{{{{ {small} bfe.{kind} {{d}}, {{a}}, p, n; }}}}", int(kind[1:]), int(kind[1:]), 32, 32
                )
            )
        for bits in (32, 64):
            text = f"{{{{ {small} bfi.b{bits} {{d}}, {{a}}, -1, p, n; }}}}"
            made.append(plain(text, bits, bits, 32, 32))
            made.append(plain(text.replace("{a}, -1", "-1, {a}"), bits, bits, 32, 32))
        for mode in ("clamp", "wrap"):
            text = f"{{{{ {small} bmsk.{mode}.b32 {{d}}, p, n; or.b32 {{d}}, {{d}}, {{a}}; }}}}"
            made.append(plain(text, 32, 32, 32, 32))
            made.extend(
                plain(f"{{{{ {small} szext.{mode}.{kind} {{d}}, {{a}}, n; }}}}", 32, 32, 32, 32)
                for kind in ("u32", "s32")
            )
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        w = int(kind[1:])
        made.extend(
            plain(f"{{{{ .reg .b{w} z; and.b{w} z, {{b}}, 1; {op}.{kind} {{d}}, {{a}}, z; }}}}", w, w, w)
            for op in ("div", "rem")
        )
    for how, kind in product(("lt", "eq"), ("s32", "f32")):
        made.append(
            plain(
                f"{{{{ .reg .f32 f; set.{how}.f32.{kind} f, {{a}}, {{b}}; mov.b32 {{d}}, f; }}}}", 32, 32, 32
            )
        )
        made.append(plain(f"set.{how}.f32.{kind} {{d}}, {{a}}, {{b}};", 32, 32, 32))
    cases, _ = accepted(made)
    run("fields", cases, LANES, seed)
