"""What a library imports and which instructions it holds, read from the file."""

import subprocess
from pathlib import Path

import pytest

from kernelwright.languages import imported_names, outside_instructions, writable_spans
from kernelwright.languages._imports import _OUTSIDE
from kernelwright.verify.checks.arguments_only import read_besides

CLEAN = (
    "#include <cmath>\n#include <vector>\n"
    'extern "C" double f(double x) { return std::vector<double>(9, std::exp(x))[3]; }'
)
ASSEMBLY = 'extern "C" long f() { long x; asm volatile("INSTRUCTION" : "=a"(x) : : "rdx", "rcx", "r11"); return x; }\n'
needs_compiler = pytest.mark.needs("g++")
needs_objdump = pytest.mark.needs("objdump")


def library(folder: Path, source: str) -> Path:
    (folder / "a.cpp").write_text(source)
    out = folder / "a.so"
    subprocess.run(
        ["g++", "-O2", "-fopenmp", "-shared", "-fPIC", folder / "a.cpp", "-o", out], check=True, timeout=60
    )
    return out


@needs_compiler
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ('#include <ctime>\nextern "C" long f() { return std::time(nullptr); }', "a clock"),
        ('#include <chrono>\nusing C = std::chrono::steady_clock;\nC::time_point f() { return C::now(); }', "a clock"),
        ('#include <omp.h>\nextern "C" double f() { return omp_get_wtime(); }', "a clock"),
        ('#include <random>\nextern "C" int f() { return std::random_device{}(); }', "random numbers"),
        ('#include <cstdlib>\nextern "C" int f() { return rand(); }', "random numbers"),
        ('#include <cstdlib>\nextern "C" char* f() { return getenv("A"); }', "the environment"),
        ('#include <fstream>\nextern "C" int f() { return std::ifstream("/proc/uptime").get(); }', "files"),
        ('#include <dlfcn.h>\nextern "C" void* f() { return dlsym(RTLD_DEFAULT, "time"); }', "by number or name"),
        (CLEAN, ""),
    ],
)  # fmt: skip
def test_what_is_imported_is_named(tmp_path: Path, source: str, kind: str) -> None:
    said = read_besides(imported_names(library(tmp_path, source)))
    assert (kind in said) if kind else said == ""


@needs_compiler
@needs_objdump
@pytest.mark.parametrize("name", ["rdtsc", "rdtscp", "rdrand %%rax", "syscall", "int $0x80", ""])
def test_instructions_are_found(tmp_path: Path, name: str) -> None:
    found = outside_instructions(library(tmp_path, ASSEMBLY.replace("INSTRUCTION", name) if name else CLEAN))
    assert found == (frozenset({name.split()[0]}) if name else frozenset())


def test_random_numbers_are_a_random_task_s_own_affair() -> None:
    assert read_besides(frozenset({"rand"})) and not read_besides(frozenset({"rand"}), random=True)
    assert read_besides(frozenset({"rand", "time"}), random=True)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_text("not a library")
    with pytest.raises(ValueError, match="no 64-bit"):
        imported_names(tmp_path / "a.so")


@needs_compiler
def test_zeros_belong_to_what_may_be_written(tmp_path: Path) -> None:
    def size(source: str) -> int:
        return sum(length for _, length in writable_spans(library(tmp_path, source)))

    clean = size(CLEAN)
    assert 0 < clean < 100_000
    assert size('static char kept[100000];\nextern "C" char* f() { return kept; }') > 100_000


@pytest.mark.parametrize(("line", "is_outside"), [
    ("\tmrs\tx0, tpidr_el0", False), ("\tmsr\ttpidr_el0, x0", True), ("\tmrs\tx0, cntvct_el0", True),
    ("\trdgsbase %rax", True), ("\twrfsbase %rax", True), ("\tvmovups (%rdi),%zmm0", False),
])  # fmt: skip
def test_reading_where_a_threads_own_memory_lies_is_honest_and_writing_it_is_not(
    line: str, is_outside: bool
) -> None:
    assert bool(_OUTSIDE.search(line)) == is_outside
