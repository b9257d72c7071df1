"""Helion, TileLang and CuTe DSL in the judge: right candidates pass, wrong ones fail, races are found."""

import pytest

from kernelwright.languages import get_language
from kernelwright.records import CheckStatus, VerdictStatus

from .judging import judging

HELION = """
import helion
import helion.language as hl
import torch

@helion.kernel(config=helion.Config(block_sizes=[2, 64]))
def mirror(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, n = x.size()
    for row, column in hl.tile([rows, n]):
        value = hl.load(x, [row, n - 1 - column.index])
        out[row, column] = 2 * value
    return out

def run(x):
    return mirror(x.contiguous())
"""
TILELANG = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def mirror():
    rows, n = T.dynamic("rows"), T.dynamic("n")  # compiled once for every size

    @T.prim_func
    def kernel(x: T.Tensor((rows, n), "float32"), out: T.Tensor((rows, n), "float32")):
        with T.Kernel(rows, threads=64) as row:
            for i in T.Parallel(n):
                out[row, i] = 2 * x[row, n - 1 - i]

    return kernel

def run(x):
    return mirror()(x.contiguous())
"""
CUTE = """
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def mirror(x: cute.Tensor, out: cute.Tensor, n: cutlass.Int32):
    i, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    if i < n:
        out[row, i] = 2.0 * x[row, n - 1 - i]

@cute.jit
def launch(x: cute.Tensor, out: cute.Tensor, rows: cutlass.Int32, n: cutlass.Int32):
    mirror(x, out, n).launch(grid=(rows, 1, 1), block=(1024, 1, 1))

COMPILED = {}

def run(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    arguments = from_dlpack(x), from_dlpack(out), *x.shape
    if x.shape not in COMPILED:
        COMPILED[x.shape] = cute.compile(launch, *arguments)
    COMPILED[x.shape](*arguments)
    return out
"""
RIGHT = {"helion": HELION, "tilelang": TILELANG, "cute": CUTE}
RACY = {
    "helion": HELION.replace(
        "out[row, column] = 2 * value", "hl.store(out, [row.index * 0, column.index], value)"
    ),
    "tilelang": TILELANG.replace("out[row, i]", "out[0, i]"),
    "cute": CUTE.replace("out[row, i]", "out[0, i]"),
}
languages = pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.needs(n)) for n in RIGHT])

pytestmark = [pytest.mark.long, pytest.mark.needs("no GPU")]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with judging(tmp_path_factory.mktemp("python")) as judge:
        yield judge


@languages
def test_a_right_kernel_is_accepted_and_never_timed(judge, name: str) -> None:
    verdict = judge(RIGHT[name], name, "full")
    assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]
    assert next(f for f in verdict.findings if f.check == "sanitised").status is CheckStatus.PASS
    assert not get_language(name).timeable("cpu")


@languages
def test_a_wrong_one_is_refused(judge, name: str) -> None:
    text = RIGHT[name].replace("2 * ", "3 * ").replace("2.0 * ", "3.0 * ")
    assert judge(text, name).failure == "correct"


@languages
def test_a_race_refuses_it_and_is_named(judge, name: str) -> None:
    verdict = judge(RACY[name], name)
    assert verdict.failure == "runs"
    assert "race at PTX line" in next(f for f in verdict.findings if f.check == "runs").message
