"""The engine's libraries, asked for by several at once, and what every kernel includes."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelwright.executor import _native


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


def test_a_long_kernel_is_not_optimised(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(_native, "_LONG", 5)
    run, last = _native.run_tool, []
    monkeypatch.setattr(_native, "run_tool", lambda words, **more: last.append(words) or run(words, **more))
    levels = []
    for lines in (3, 9):
        _native.kernel_library('#include "runtime.h"\n' + "\n" * lines)
        levels.append([word for word in last[-1] if word.startswith("-O")][-1])
    assert levels == ["-O2", "-O0"]
