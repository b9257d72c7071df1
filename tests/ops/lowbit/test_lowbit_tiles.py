"""Low-bit layers by a model of the tile unit (AMX): activations of 8 bits give what vectors give, bit by bit."""

import subprocess
from pathlib import Path

import pytest
import torch
from tests.ops.gemm.tile_products import REAL
from tests.tools import require

from kernelwright import ops
from kernelwright.languages import vectors
from kernelwright.languages.cpp import INCLUDE, ffi_includes
from kernelwright.ops import lowbit
from kernelwright.ops._core import Kernel
from kernelwright.ops._core import kernel as kernels
from kernelwright.ops._core.kernel import HEADERS

VECTORS = Path(vectors.__file__).parent
FORMATS = (
    (8, 32, "int", True), (8, 0, "int", False), (4, 128, "int", True), (4, 32, "uint", False), (3, 64, "int", False),
    (2, 0, "uint", False), (None, 32, "e2m1", True), (None, 64, "e2m1", True),
)  # fmt: skip
"""Bits, group, kind, symmetric."""
ROWS = (1, 3, 4, 7, 16, 17, 31, 32, 41, 70)


@pytest.fixture(scope="module")
def entries():
    """The kernel as it is built for this processor, and on the model."""
    require("g++")
    (op,) = (one for one in ops.ops_of(lowbit) if one.name == "lowbit_linear")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_FLAGS", (*kernels._FLAGS, "-DKW_TILE_MODEL"))
        return op, op._load(), Kernel(lowbit.KERNEL.file).function(op.name)


@pytest.mark.long
def test_results_by_tiles_are_those_of_vectors(entries):
    op, own, by_tiles = entries
    assert own is not None and by_tiles is not None
    torch.manual_seed(4)
    for bits, group, kind, symmetric in FORMATS:
        p = lowbit.pack(torch.randn(130, 720), bits, group, kind, symmetric)
        minima = torch.randn_like(p.scales) if kind == "uint" else p.minima
        for rows in ROWS:
            for dtype in (torch.float32, torch.bfloat16):
                x, bias = (3 * torch.randn(rows, 720)).to(dtype), torch.randn(130).to(dtype)
                x[0, 5:40] = 0
                arguments = (
                    x,
                    p.codes,
                    p.scales,
                    p.zeros,
                    minima,
                    bias,
                    p.exponent,
                    p.group,
                    p.zero,
                    True,
                    p.outputs,
                )
                op.check(*arguments)
                assert op.serves(*arguments) is None
                found, right = op.outputs(*arguments).fill_(7), op.outputs(*arguments).fill_(8)
                by_tiles(*arguments, found)
                own(*arguments, right)
                assert torch.equal(found, right), (bits, group, kind, rows, dtype)


@pytest.mark.long
@pytest.mark.needs("g++ with AMX", "objdump")
def test_the_units_own_instructions_are_compiled(tmp_path):
    (tmp_path / "sums.cpp").write_text(
        '#include "vector.h"\n#include "integer_tiles.h"\nauto* sums = &kw::integer_tiles;\n'
    )
    flags = ["-std=c++17", "-O1", "-fopenmp", "-Wno-psabi", *REAL, *ffi_includes()]
    folders = [f"-I{path}" for path in (*HEADERS, INCLUDE, VECTORS)]
    made = tmp_path / "sums.o"
    subprocess.run(
        ["g++", *flags, *folders, "-c", str(tmp_path / "sums.cpp"), "-o", str(made)], check=True, timeout=120
    )
    code = subprocess.check_output(["objdump", "-d", str(made)], text=True, timeout=60)
    assert code.count("tdpbsud") >= 4 and "ldtilecfg" in code and "tilerelease" not in code, (
        "whoever holds shapes releases"
    )
