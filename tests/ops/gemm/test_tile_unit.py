"""Products by a model of the tile unit (AMX): exact, rounded as the manual says, left to vectors without the unit."""

import ctypes
import errno
import platform
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.ops.gemm import tile_products as products
from tests.tools import require
from torch.utils._pytree import tree_leaves

from kernelwright import ops
from kernelwright.api.ops import cases_of, task_of
from kernelwright.api.special_values import called as by_kernel
from kernelwright.api.special_values import special_calls
from kernelwright.devices import detect
from kernelwright.ops import gemm, lowbit
from kernelwright.ops._core import Kernel, tuning
from kernelwright.ops._core import kernel as kernels
from kernelwright.tasks import Problem
from kernelwright.verify import Oracle
from kernelwright.verify.checks.correct import compare_outputs

UNITS = {"amx", "amx_bf16", "amx_int8"}
MUTANTS = {
    "columns of the wrong half": ("KW_TILE_PAIRS(1, 4, 7);", "KW_TILE_PAIRS(1, 4, 6);"),
    "bytes of the wrong rows": ("if (two) KW_TILE_QUADS(2, 5, 6);", "if (two) KW_TILE_QUADS(2, 4, 6);"),
    "sums not begun from zero": ("  KW_TILE_ZERO(0);\n", ""),
    "rows too near": ("a + kUnitRows * apart, apart", "a + (kUnitRows - 1) * apart, apart"),
    "a step of the rest is lost": (
        "static_cast<size_t>(s.left * kPanelStep)",
        "static_cast<size_t>((s.left - 1) * kPanelStep)",
    ),
    "the rest is read from elsewhere": ("s.whole * 4 * s.deep", "s.whole * s.deep"),
    "the rest is left out": ("  if (s.left) tile_products", "  if (s.left > 100) tile_products"),
    "half a block where there is none": ("high > kUnitRows;", "high >= kUnitRows;"),
    "shapes of the rest are not set": ("    shapes.set(", "    if (high == kTileHigh) shapes.set("),
    "never released": ("    tile_model::release();\n", ""),
}
"""One edit away from what is right, in the headers of the kernel."""
FAULTS = {
    "pairs in turn": ("two = fma(at(left, m, 2 * k + 1)", "two = fma(at(left, m, 2 * k)"),
    "sums in another order": (
        "add(element<float>(sums, m, n), add(one, two))",
        "add(add(element<float>(sums, m, n), one), two)",
    ),
    "least normal numbers go too": ("1.0 - 0x1p-25", "1.0 + 0x1p-22"),
    "least normal numbers stay": ("const bool below = sum > 0", "const bool below = false && sum > 0"),
    "subnormals stay": ("x = taken(x), y = taken(y), z = taken(z);", ""),
}
"""One edit away from what the manual says, in the model."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The products, built on the model."""
    return ctypes.CDLL(str(products.build(tmp_path_factory.mktemp("model"), products.MODEL)))


@pytest.mark.needs("g++")
def test_sums_by_tiles_are_exact_in_bytes_and_in_pairs_what_the_manual_says(model):
    assert products.wrong(model, by_tiles=True) == []


@pytest.mark.needs("g++")
def test_the_model_rounds_as_the_processor_does_that_knows_no_subnormals(model):
    assert products.arithmetic(model) == (products.TRIPLES if "fma" in detect("cpu").vector_units else 0, 0)


@pytest.mark.needs("g++")
def test_a_product_adds_to_what_is_there_and_special_values_go_where_they_belong(model):
    left, right = np.ones((16, 32), np.float32), np.ones((32, 16), np.float32)
    sums = np.full((16, 16), 0.5, np.float32)
    left[1, 3], left[2, 0], right[7, 5] = np.nan, np.inf, -np.inf
    left[3], left[4, 0], left[4, 1] = 2.0**-130, 3e38, -3e38
    given = products.rounded(left), products.rounded(right).reshape(16, 2, 16).transpose(0, 2, 1).copy(), sums
    model.one_product(*(ctypes.c_void_p(x.ctypes.data) for x in given))
    assert np.isnan(sums[1]).all()
    assert np.isposinf(np.delete(sums[2], 5)).all() and np.isnan(sums[2, 5])
    assert np.isneginf(np.delete(sums[:, 5], [1, 2, 3])).all()
    assert (np.delete(sums[3], 5) == 0.5).all() and np.isnan(sums[3, 5]), (
        "zero times infinity: subnormals are zero"
    )
    assert (np.delete(sums[[0, 5]], 5, axis=1) == 32.5).all()
    assert (np.delete(sums[4], 5) == 0.5).all(), "3e38 and -3e38 cancel last"


@pytest.mark.needs("g++")
def test_a_call_may_choose_vectors_which_know_subnormals_here(model):
    left, right = products.rounded(np.full((8, 8), 2.0**-130)), products.rounded(np.full((8, 40), 2.0**120))
    try:
        made = {}
        for number in (products.OWN, products.TILES, products.VECTORS):
            model.choose(ctypes.c_int64(number))
            made[number] = products.called(model, "pairs", left, right)
    finally:
        model.choose(ctypes.c_int64(products.OWN))
    assert (made[products.OWN] == 0).all() and (made[products.TILES] == 0).all()
    flushes = "avx512_bf16" in detect("cpu").vector_units
    assert (made[products.VECTORS] == (0 if flushes else 8 * 2.0**-10)).all()


def by_vectors(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Multiply as AVX512-BF16 does: one pair after another, its second elements first, subnormals as zero."""
    x, y = products.flushed(products.wide(left)), products.flushed(products.wide(right))
    sums = np.zeros((len(left), right.shape[1]), np.float32)
    for k in range(0, x.shape[1], 2):
        for i in (k + 1, k):
            sums = products.flushed(sums + x[:, i, None] * y[None, i])
    return sums


def test_pairs_by_tiles_are_as_near_as_those_of_vectors_on_planted_factors():
    """Order of sums and subnormals are all that is otherwise: no factor makes tiles further off than AVX512-BF16 is."""
    random = np.random.default_rng(5)
    normal = random.standard_normal((24, 600)), random.standard_normal((600, 40))
    positive = np.abs(normal[0]), np.abs(normal[1])
    cancelling = np.concatenate([normal[0], -normal[0]], 1), np.concatenate([normal[1], normal[1]])
    wild = (
        normal[0] * 2.0 ** random.integers(-40, 40, 600),
        normal[1] * 2.0 ** random.integers(-20, 20, (600, 1)),
    )
    some = np.where(random.random((24, 600)) < 1 / 8, 2.0**-128, normal[0]), normal[1]
    small = normal[0] * 2.0**-70, normal[1] * 2.0**-70
    for name, (left, right) in {"normal": normal, "positive": positive, "cancelling": cancelling, "wild": wild,
                                "some subnormal": some, "all sums subnormal": small}.items():  # fmt: skip
        one, two = products.rounded(left), products.rounded(right)
        exact = products.wide(one).astype(np.float64) @ products.wide(two).astype(np.float64)
        off = [np.linalg.norm(f(one, two) - exact) for f in (products.by_the_manual, by_vectors)]
        assert off[0] <= 1.05 * off[1], name
        scale = np.linalg.norm(np.abs(products.wide(one)).astype(np.float64) @ np.abs(products.wide(two)))
        # 36 roundings in a row at most, of 2^-24 each; the result is rounded to 2^-9.
        assert off[0] <= max(36 * 2.0**-24 * scale, 2.0**-126 * exact.size), name


@pytest.mark.needs("g++ with AMX", "objdump")
def test_the_units_own_instructions_are_compiled_and_left_alone_where_there_is_no_unit(tmp_path):
    made = products.build(tmp_path, products.REAL)
    code = subprocess.run(
        ["objdump", "-d", str(made)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    wanted = (
        "ldtilecfg",
        "tilerelease",
        "tilezero",
        "tileloadd",
        "tilestored",
        "tdpbf16ps",
        "tdpbsud",
        "xgetbv",
    )
    assert [one for one in wanted if not re.search(rf"\b{one}\b", code)] == []
    library = ctypes.CDLL(str(made))
    if not set(detect("cpu").vector_units) >= UNITS:
        assert not library.usable()
    assert products.wrong(library, by_tiles=False) == []


@pytest.mark.needs("system call filter")
def test_the_filter_of_system_calls_lets_a_kernel_ask_for_the_unit():
    asks = (
        "import ctypes; from kernelwright.sandbox._seccomp import close_system_calls, filter_works; libc = "
        "ctypes.CDLL(None, use_errno=True); assert close_system_calls(unix_sockets=False) and filter_works(); "
        "print(libc.syscall(158, 0x1023, 18), ctypes.get_errno())"
    )
    if platform.machine() == "x86_64":
        said = subprocess.check_output([sys.executable, "-c", asks], text=True, timeout=60).split()
        has = "amx" in detect("cpu").vector_units
        assert said[0] == "0" if has else int(said[1]) in (errno.EINVAL, errno.EOPNOTSUPP), (
            "not EPERM, the filter's"
        )


@pytest.fixture
def with_a_unit(monkeypatch, tmp_path):
    """Products on a processor of which it is said that it has the unit, with no table and nothing learned."""
    require("g++")
    own = {op.name: op for op in ops.ops_of(ops.gemm)}
    monkeypatch.setenv("KERNELWRIGHT_TUNING", "online")
    monkeypatch.setattr(tuning, "_learned_file", lambda: tmp_path / "learned.json")
    monkeypatch.setattr(tuning, "shipped", lambda kind: {})
    monkeypatch.setattr(tuning, "_has", lambda units: set(units) == UNITS)
    monkeypatch.setattr(tuning, "LEAST_S", 0.0)
    for op in own.values():
        op._load()
        monkeypatch.setattr(
            op, "_served", None
        )  # which would make calls past what a test puts in an entry's place
        monkeypatch.setattr(op, "tuning", tuning.Tuning("dots", op.tuning._sizes))
    return own


def planned(dtype):
    """Say what would serve a product of such a dtype."""
    a, b = torch.ones(8, 64, dtype=dtype), gemm.pack(torch.ones(64, 32, dtype=dtype), follow=False)
    call = gemm.int_mm if dtype is torch.int8 else gemm.matmul
    (one,) = ops.explain(lambda: call(a, b))
    return one.variant


def test_what_would_serve_says_how_far_tiles_are_proven_and_nothing_where_there_are_none(
    with_a_unit, monkeypatch
):
    for dtype in (torch.bfloat16, torch.int8):
        assert "compiled and modelled" in planned(dtype) and "no machine" in planned(dtype)
    assert "modelled" not in planned(torch.float32), "floats are not multiplied by tiles"
    x, packed = torch.ones(8, 64), lowbit.pack(torch.ones(40, 64))
    (one,) = ops.explain(lambda: lowbit.linear(x, packed, activations="int8"))
    assert "activations of 8 bits in four rows or more: by AMX's tiles" in one.variant
    monkeypatch.setattr(tuning, "_has", lambda units: False)
    assert "modelled" not in planned(torch.bfloat16)


def test_the_third_call_of_a_shape_times_tiles_against_vectors_and_the_faster_is_kept(
    with_a_unit, monkeypatch
):
    op, given, now, trial = with_a_unit["gemm_matmul"], [], [0.0], tuning.trial
    monkeypatch.setattr(tuning, "trial", lambda run, values: trial(run, values, clock=lambda: now[0]))
    entry = op._entry("")

    def timed(*arguments):
        given.append(arguments[8] if len(arguments) > 8 else -1)
        now[0] += 0.001 if given[-1] == 0 else 0.004
        entry(*arguments)

    a, b = torch.randn(8, 64).bfloat16(), gemm.pack(torch.randn(64, 32).bfloat16(), follow=False)
    monkeypatch.setattr(op, "_entry", lambda _: timed)
    results = [gemm.matmul(a, b) for _ in range(4)]
    assert set(given) == {-1, 0, 1} and given[-1] == 0
    assert all(torch.equal(results[0], one) for one in results)
    assert "0 of units that multiply" in planned(torch.bfloat16)


@pytest.mark.needs("g++")
def test_a_unit_that_multiplies_wrong_is_left_to_vectors(tmp_path):
    made = ctypes.CDLL(str(products.build(tmp_path, products.MODEL, dict([FAULTS["pairs in turn"]]))))
    assert not made.usable()
    assert products.wrong(made, by_tiles=False) == []


@pytest.mark.long
@pytest.mark.needs("g++")
@pytest.mark.parametrize("name", [*MUTANTS, *FAULTS])
def test_one_wrong_edit_is_found(name, tmp_path):
    made = products.build(tmp_path, products.MODEL, dict([(MUTANTS | FAULTS)[name]]))
    ran = subprocess.run(
        [sys.executable, products.__file__, str(made)], capture_output=True, timeout=200, check=False
    )
    assert ran.returncode != 0
    assert b"Traceback" not in ran.stderr


@pytest.fixture(scope="module")
def built():
    """The ops of the family, whose kernels are built on the model."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_FLAGS", (*kernels._FLAGS, products.MODEL[-1]))
        kernel = Kernel(ops.gemm.KERNEL.file)
        own = {op.name: op for op in ops.ops_of(ops.gemm)}
        for name, op in own.items():
            patch.setattr(op, "_entry", lambda _, name=name: kernel.function(name))
            patch.setattr(op, "_served", None)
            assert op._entry("") is not None, kernel.problem
        yield own


@pytest.mark.long
def test_the_judge_finds_products_by_tiles_right_on_every_workload(built):
    for cases in cases_of("gemm"):
        problem = Problem(task_of("gemm", cases))
        for i, workload in enumerate(problem.task.workloads):
            case = Oracle(problem).case(workload, seed=i)
            if case.usable:
                outputs, ran, why = built[cases.op]._run(tuple(case.inputs))[:3]
                assert ran == "kernel", why
                found = compare_outputs("correct", SimpleNamespace(outputs=tree_leaves(outputs)), case)
                assert found.status == "pass", (cases.op, workload.name, found)


@pytest.mark.long
def test_the_judge_finds_products_by_tiles_right_on_special_values(built):
    judged = 0
    for cases in cases_of("gemm"):
        for one in special_calls(task_of("gemm", cases), cases, workloads=6):
            if one.judged and one.inputs[0].dtype is not torch.float32:
                judged += 1
                assert one.wrong(by_kernel(built[cases.op], one.inputs)) == "", (
                    one.workload,
                    one.argument,
                    one.kind,
                )
    assert judged
