"""The vector functions: a few units in the last place, and IEEE 754 at the edges; operators printed on them."""

import ctypes
import doctest
import platform
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import Function, load, templates

from kernelwright.languages.cpp import INCLUDE, ffi_includes
from kernelwright.languages.vectors import (
    Term,
    Unprintable,
    _expression,
    _headers,
    headers_of,
    print_pointwise,
)

EDGES = torch.tensor(
    [0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 88.0, -88.0, 3e38, -3e38, float("inf"), float("-inf")]
)


@pytest.mark.parametrize(
    ("function", "low", "high", "ulps"),
    [
        (torch.exp, -87.0, 88.0, 2), (torch.erf, -5.0, 5.0, 3), (F.gelu, -1.0, 8.0, 16),
        (F.elu, -90.0, 88.0, 2),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (torch.log, 1e-30, 1e30, 2), (torch.tanh, -10.0, 10.0, 2), (F.silu, -80.0, 80.0, 3),
                (torch.expm1, -20.0, 80.0, 2), (torch.log1p, -0.99, 100.0, 2), (torch.sigmoid, -80.0, 80.0, 3),
                (torch.exp2, -120.0, 120.0, 2), (torch.log2, 1e-30, 1e30, 2), (torch.log10, 0.3, 3.0, 3),
                (torch.floor, -9.0, 9.0, 0), (torch.ceil, -9.0, 9.0, 0), (torch.trunc, -9.0, 9.0, 0),
                (torch.sqrt, 0.0, 1e20, 1), (torch.rsqrt, 1e-20, 1e20, 2), (torch.sin, -6e4, 6e4, 2),
                (torch.cos, -70.0, 70.0, 2),
            )
        ),
    ],
)  # fmt: skip
def test_accuracy(function: Function, low: float, high: float, ulps: float) -> None:
    x = torch.linspace(low, high, 30_011)
    x = torch.cat([x, x[::10] * 1e-7]) if low < 0 else x
    (template,) = templates("rows", function, [x])
    kernel = load(template)
    (got,), exact = kernel(function, [x]), function(x.double())
    assert isinstance(exact, torch.Tensor)
    unit = torch.finfo(torch.float32).eps * torch.exp2(exact.abs().clamp_min(1e-37).log2().floor())
    assert ((got.double() - exact).abs() / unit).max() <= ulps
    given = EDGES[:8] if function is F.gelu else EDGES  # torch's own float32 gelu overflows early
    (edges,) = kernel(function, [given])
    torch.testing.assert_close(edges, function(given), equal_nan=True)


@pytest.mark.needs("g++")
def test_the_last_elements_of_a_row_stay_in_registers_with_eight_lanes(tmp_path) -> None:
    """Without a call, which would store and load every vector around it, each count is copied and nothing beyond it."""
    flags = ("-mavx2", "-mfma") if platform.machine() == "x86_64" else ()
    (tmp_path / "part.cpp").write_text(
        '#include "vector.h"\nextern "C" void copy(const float* from, float* to, int count) {\n'
        "  kw::store(to, kw::load(from, kw::Part{count}) * 2.0f, kw::Part{count});\n}\n"
    )
    folders = (INCLUDE, Path(_headers.__file__).parent, *ffi_includes())
    command = ["g++", "-std=c++17", "-O2", *flags, "-fPIC", "-shared", *(f"-I{f}" for f in folders)]
    subprocess.run([*command, "part.cpp", "-o", "part.so"], cwd=tmp_path, check=True)
    outside = subprocess.check_output(["nm", "-D", "--undefined-only", "part.so"], cwd=tmp_path, text=True)
    assert "mem" not in outside or not flags, outside
    copy = ctypes.CDLL(str(tmp_path / "part.so")).copy
    for count in range(9):
        given, got = torch.arange(1.0, 10.0), torch.full((9,), -1.0)
        copy(ctypes.c_void_p(given.data_ptr()), ctypes.c_void_p(got.data_ptr()), count)
        assert torch.equal(got, torch.where(torch.arange(9) < count, 2 * given, -1.0))


POWERS = """#include "vector.h"
using namespace kw;
extern "C" void powers(const float* x, const float* n, float* to, float* normal, float* larger, float* smaller,
                       int count) {
  for (int i = 0; i < count; i += W) {
    const F a = load(x + i, Full{}), b = load(n + i, Full{});
    store(to + i, scale(a, b), Full{});
    store(normal + i, scale_normal(a, b), Full{});
    store(larger + i, maximum(a, b), Full{});
    store(smaller + i, minimum(a, b), Full{});
  }
}
"""


@pytest.mark.needs("g++")
@pytest.mark.parametrize(
    "flags", [(), ("-mno-avx512f",), ("-mno-avx512f", "-mno-avx2", "-mno-fma", "-mno-avx")]
)
def test_powers_of_two_round_once_and_what_is_no_number_stays(tmp_path, flags) -> None:
    """Through subnormal numbers and overflow; of two the larger and the smaller, as torch has them."""
    (tmp_path / "powers.cpp").write_text(POWERS)
    folders = (INCLUDE, Path(_headers.__file__).parent, *ffi_includes())
    machine = ("-march=native", *flags) if platform.machine() == "x86_64" else ()
    command = ["g++", "-std=c++17", "-O3", *machine, "-fPIC", "-shared", *(f"-I{f}" for f in folders)]
    subprocess.run([*command, "powers.cpp", "-o", "powers.so"], cwd=tmp_path, check=True)
    powers = ctypes.CDLL(str(tmp_path / "powers.so")).powers
    n = torch.arange(-217.0, 189.0).repeat_interleave(16)
    x = torch.linspace(0.7, 1.42, len(n))
    odd = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 1e-40])
    pairs = torch.cartesian_prod(odd, odd)
    x, n = torch.cat([x, pairs[:, 0]]), torch.cat([n, pairs[:, 1]])
    found = [torch.empty_like(x) for _ in range(4)]
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, n, *found)]
    powers(*pointers, ctypes.c_int(len(x)))
    plain, exact = slice(0, len(x) - 64), (x.double() * torch.exp2(n.double())).float()
    assert torch.equal(found[0][plain], exact[plain])
    normal = (n >= -126) & (n <= 127) & (torch.arange(len(n)) < len(n) - 64)
    assert torch.equal(found[1][normal], exact[normal])
    torch.testing.assert_close(found[2], torch.maximum(x, n), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(found[3], torch.minimum(x, n), rtol=0, atol=0, equal_nan=True)


def test_printing() -> None:
    x, m = Term("x"), Term("m", "mask")
    assert print_pointwise("aten.sub.Tensor", [1, x]).text == "(1.0f - x)"
    assert print_pointwise("aten.where.self", [m, x, 0.0]).text == "kw::select(m, x, kw::splat(0.0f))"
    assert print_pointwise("aten.mul.Tensor", [m, x]).text == "(kw::to_float(m) * x)"
    assert print_pointwise("aten.eq.Scalar", [Term("t", "integer"), -100]).text == "(t == -100)"
    with pytest.raises(Unprintable, match="no vector form"):
        print_pointwise("aten.fft_fft.default", [x])


def test_examples_in_docstrings() -> None:
    for module in (_expression, _headers):
        assert doctest.testmod(module).failed == 0


def test_headers_are_those_of_a_folder_and_ours_and_no_path_is_followed(tmp_path) -> None:
    (tmp_path / "mine.h").write_text('#include "vector.h"\n')
    (tmp_path.parent / "outside.h").write_text("")
    text = '#include "mine.h"\n#include "../outside.h"\n#include "unknown.h"\n'
    assert [h.path for h in headers_of(text, (tmp_path,))] == [
        "kernelwright.h", "mine.h", "traffic.h", "vector.h",
    ]  # fmt: skip
