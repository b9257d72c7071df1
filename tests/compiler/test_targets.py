"""Printed products compile for processors that are not here: ARM's NEON, and vectors of any width."""

import re
import subprocess
from pathlib import Path

import pytest
import tvm_ffi
from tests.compiler.test_products import program_of

from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import Tiling

STUBS = {
    "omp.h": 'extern "C" { int omp_get_max_threads(), omp_get_thread_num(), '
    "omp_get_num_threads(), omp_in_parallel(); }",
    "gnu/stubs.h": "",
    "bits/wordsize.h": "#define __WORDSIZE 64\n#define __WORDSIZE_TIME64_COMPAT32 0\n#define __SYSCALL_WORDSIZE 64",
}
"""What headers of this machine lack for another: the syntax is checked, nothing is linked."""


def system_headers():
    told = subprocess.run(
        ["g++", "-E", "-x", "c++", "-", "-v"],
        input="",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stderr
    listed = told.split("#include <")[1].split("End of search list")[0].split("\n")[1:]
    return [f"-isystem{path.strip()}" for path in listed if path.strip() and "/gcc/" not in path]


@pytest.mark.needs("clang", "g++")
def test_tiles_become_multiplications_of_neon_vectors(tmp_path):
    graph, program = program_of("convolved", Tiling("panels"))
    for source in cpp.render(program, graph).sources:
        (tmp_path / source.path).write_text(source.text)
    for name, text in STUBS.items():
        path = tmp_path / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    include = Path(tvm_ffi.__file__).parent / "include"
    made = subprocess.run(
        ["clang++", "--target=aarch64-linux-gnu", "-std=c++17", "-O1", "-S", "-o", "-", "-w", f"-I{tmp_path}/stubs",
         f"-I{include}", *system_headers(), str(tmp_path / "kernel.cpp")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert len(re.findall(r"fmla\s+v\d+\.4s", made.stdout)) >= 12
