"""Heap memory that a library's static memory leads to."""

import ctypes
import mmap
import os
import subprocess

import pytest

from kernelwright.languages import writable_spans
from kernelwright.sandbox._heap import reached_blocks
from kernelwright.sandbox._memory import library_memory

SOURCE = r"""
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>
struct Kept { std::vector<std::vector<int64_t>> rows{std::vector<int64_t>(4), std::vector<int64_t>(9)}; };
static std::unique_ptr<Kept> kept = std::make_unique<Kept>();
static std::map<int64_t, int64_t> counts;
static int64_t* large = static_cast<int64_t*>(std::calloc(1 << 20, 8));
static uintptr_t disguised = ~reinterpret_cast<uintptr_t>(new int64_t(0));
extern "C" void nested() { ++kept->rows[1][8]; }
extern "C" void in_map() { ++counts[7]; }
extern "C" void in_pages() { ++large[(1 << 20) - 1]; }
extern "C" void in_disguise() { ++*reinterpret_cast<int64_t*>(~disguised); }
extern "C" void scratch() { auto x = new int64_t[100]; x[7] = 3; asm("" : : "r"(x) : "memory"); delete[] x; }
extern "C" void nothing() {}
extern "C" { alignas(4096) char zeroed[8 * 4096]; }
"""


CALLER = r"""
#include <cstdio>
#include <dlfcn.h>
int main(int, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  char name[64];
  while (scanf("%63s", name) == 1) {
    reinterpret_cast<void (*)()>(dlsym(library, name))();
    puts(name);
    fflush(stdout);
  }
}
"""
"""A process whose heap holds little else: what others freed may lead anywhere."""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    (folder / "kept.cpp").write_text(SOURCE)
    path = folder / "kernel_kept.so"
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", folder / "kept.cpp", "-o", path], check=True)
    return path, ctypes.CDLL(str(path))


@pytest.mark.needs("C++ compiler")
@pytest.mark.parametrize(("function", "blocks"), [
    ("nested", 1), ("in_map", 1), ("in_pages", 1), ("in_disguise", 0), ("scratch", 0), ("nothing", 0),
])  # fmt: skip
def test_a_block_that_a_call_changes_is_seen_unless_its_address_is_disguised(
    library, function, blocks
) -> None:
    path, _ = library
    program, source = path.with_name("caller"), path.with_name("caller.cpp")
    source.write_text(CALLER)
    subprocess.run(["g++", source, "-o", program, "-ldl"], check=True)
    pipe = subprocess.PIPE
    with subprocess.Popen([program, path], stdin=pipe, stdout=pipe, text=True, bufsize=1) as caller:

        def look_after_a_call():
            caller.stdin.write(f"{function}\n")
            assert caller.stdout.readline() == f"{function}\n"
            static = library_memory(caller.pid, path.name, writable_spans(path))
            assert static
            return reached_blocks(caller.pid, [static])

        before, after = look_after_a_call(), look_after_a_call()
        caller.stdin.close()
    assert 5 <= len(before) < 20  # not the whole heap either
    assert sum(map(len, before.values())) > 8 << 20
    assert sum(after.get(address) != content for address, content in before.items()) == blocks


def test_a_process_that_may_not_be_read_keeps_nothing_that_is_seen() -> None:
    assert reached_blocks(2**22 + 1, [bytes(64)]) == {}


def pointer_to(address):
    return address.to_bytes(8, "little")


@pytest.mark.needs("C++ compiler")
def test_what_a_library_has_behind_its_file_is_its_data(library):
    _, loaded = library
    start = ctypes.addressof(ctypes.c_char.in_dll(loaded, "zeroed"))
    for page in range(8):
        assert not reached_blocks(os.getpid(), [pointer_to(start + 4096 * page)])


def test_pages_that_came_to_lie_behind_a_file_are_none_of_its_data(tmp_path):
    libc, anywhere = ctypes.CDLL(None, use_errno=True), mmap.mmap(-1, 2 * mmap.PAGESIZE)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    start, here = ctypes.addressof(ctypes.c_char.from_buffer(anywhere)), 0x10 | mmap.MAP_PRIVATE  # MAP_FIXED
    both = mmap.PROT_READ | mmap.PROT_WRITE
    with (tmp_path / "data").open("w+b") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        assert libc.mmap(start, mmap.PAGESIZE, both, here, file.fileno(), 0) == start
    page = start + mmap.PAGESIZE
    assert libc.mmap(page, mmap.PAGESIZE, both, here | mmap.MAP_ANONYMOUS, -1, 0) == page
    ctypes.c_char.from_address(page + 7).value = b"k"
    (content,) = reached_blocks(os.getpid(), [pointer_to(page)]).values()
    assert content[7:8] == b"k"


def test_a_block_may_lie_on_both_sides_of_a_split_by_advice():
    """numpy asks for large pages under its arrays, which splits the heap's mapping."""
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block, size = 16, 3 * mmap.PAGESIZE
    pages[block - 8 : block] = pointer_to(size | 1)
    pages[block + size - 8 : block + size] = pointer_to(mmap.PAGESIZE | 1)
    pages.madvise(mmap.MADV_NOHUGEPAGE, 2 * mmap.PAGESIZE, mmap.PAGESIZE)
    pages[block + size - 16] = 7
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    (content,) = reached_blocks(os.getpid(), [pointer_to(start + block)]).values()
    assert (content[-8], len(content)) == (7, size - 8)
