"""Where there is no g++, clang++ compiles the engine and translated kernels: it takes the same sources."""

import shutil

import pytest

from kernelwright.executor import _native
from kernelwright.languages._process import run_tool

pytestmark = pytest.mark.needs("clang")


@pytest.mark.parametrize("source", sorted(p.name for p in _native.NATIVE.glob("*.cpp")))
def test_clang_takes_every_source_of_the_engine(source, tmp_path):
    flags = [flag for flag in _native._FLAGS if flag != "-shared"]
    words = [shutil.which("clang++"), *flags, "-fsyntax-only", f"-I{_native.NATIVE}", _native.NATIVE / source]
    done = run_tool(words, deadline_s=120, folder=tmp_path)
    assert done.returncode == 0, done.output
