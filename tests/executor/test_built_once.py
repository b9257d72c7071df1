"""The engine's libraries, asked for by several at once, and what every kernel includes."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from kernelwright.executor import Module, Uninitialised, _native

MIXED = """.version 8.0
.target sm_80
.address_size 64
.func (.param .f32 r) above(.param .f32 a) {
.reg .f32 %a; ld.param.f32 %a, [a]; fma.rn.f32 %a, %a, %a, 0f3F800000; st.param.f32 [r], %a; ret; }
.visible .entry k(.param .u64 x, .param .u64 out) {
.shared .b32 places[64];
.reg .b64 %x, %out, %by; .reg .b32 %t, %n, %at, %salt; .reg .f32 %v, %w; .reg .b16 %h; .reg .pred %below;
ld.param.u64 %x, [x]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.b64 %by, SALT;
mul.wide.u32 %by, %t, 4; add.u64 %x, %x, %by; add.u64 %out, %out, %by; ld.global.f32 %v, [%x];
setp.lt.f32 %below, %v, 0f00000000;
@!%below bra AFTER;
{ .param .b32 given; .param .b32 got; st.param.f32 [given], %v; call (got), above, (given); ld.param.f32 %v, [got]; }
AFTER:
mov.u32 %at, places; mad.lo.u32 %at, %t, 4, %at; st.shared.u32 [%at], %t; bar.sync 0; ld.shared.u32 %n, [%at];
shfl.sync.bfly.b32 %n, %n, 31, 31, -1;
cvt.rn.f16.u32 %h, %n; cvt.f32.f16 %w, %h; add.f32 %v, %v, %w; st.global.f32 [%out], %v;
ret;
}
"""


def test_what_two_ask_for_at_once_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    built, both = [], threading.Barrier(2)

    def build(scratch, made):
        built.append(scratch)
        time.sleep(0.2)
        made.write_bytes(b"a library")

    def ask(_):
        both.wait()
        return _native.cached("planted", build)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(ask, range(2))
    assert one == other and one.is_relative_to(tmp_path) and one.read_bytes() == b"a library"
    assert len(built) == 1 and [p.name for p in one.parent.iterdir()] == [one.name]


def test_what_every_kernel_includes_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    real, done = _native.run_tool, []

    def noted(words, **options):
        done.append(
            (words, real([*words, "-H"], **options))
        )  # headers are listed, with ! where compiled before
        return done[-1][1]

    monkeypatch.setattr(_native, "run_tool", noted)
    for number in (1, 2):
        _native.kernel_library(f'#include "runtime.h"\nint number() {{ return {number}; }}\n')
    gcc = Path(_native.compiler()).name == "g++"
    assert sum("c++-header" in words for words, _ in done) == gcc
    assert [line[0] for line in done[-1][1].output.splitlines()[:1]] == ["!" if gcc else "."]


def test_instructions_of_a_long_kernel_are_calls(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(_native, "_LONG", 5)
    run, last = _native.run_tool, []
    monkeypatch.setattr(_native, "run_tool", lambda words, **more: last.append(words) or run(words, **more))
    outlined = []
    for lines in (3, 9):
        _native.kernel_library('#include "runtime.h"\n' + "\n" * lines)
        outlined.append("-DKW_OUTLINED" in last[-1])
    assert outlined == [False, True]


@pytest.mark.parametrize("long", [1, 10_000])
def test_a_long_kernel_gives_what_a_short_one_gives(long, monkeypatch):
    built, real = [], _native._build_kernel
    monkeypatch.setattr(_native, "_LONG", long)
    monkeypatch.setattr(_native, "_build_kernel", lambda *all: built.append(all[1]) or real(*all))
    x, out = np.arange(-32, 32, dtype=np.float32) / 4, np.empty(64, np.float32)
    text = MIXED.replace("SALT", str(time.time_ns()))  # built here, not found
    run = Module.load(text, assembled=True)["k"](1, 64, [x, Uninitialised(out)])
    assert built == [("-DKW_OUTLINED",) if long == 1 else ()]
    assert run.ok, [str(f) for f in run.findings]
    t = np.arange(64, dtype=np.float32)
    right = np.where(x < 0, x * x + 1, x) + np.flip(t.reshape(2, 32), 1).reshape(-1).astype(np.float16)
    assert out.tolist() == right.astype(np.float32).tolist()
    wrong = Module.load(text, assembled=True)["k"](1, 64, [x[:63], Uninitialised(out)])
    assert [f.kind for f in wrong.findings] == ["out-of-bounds"] and "thread 63" in str(wrong.findings[0])


def test_what_is_left_for_workers_is_there_once_and_takes_no_space(tmp_path, monkeypatch):
    monkeypatch.setattr(_native, "_host", lambda: b"host")
    library, folder = tmp_path / "made.so", tmp_path / "left"
    library.write_bytes(b"a library")
    _native.leave_in(folder, [library, library])
    _native.leave_in(folder, [folder / "made.so"])
    assert (folder / "made.so").samefile(library) and library.read_bytes() == b"a library"
