"""Orders of tiles: bijections of every size, the same in Python and in the header, and local to an XCD."""

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.amd import chunked, row_major, windowed
from kernelwright.languages.cpp import INCLUDE


def test_renumbering_is_a_bijection_for_every_grid_xcds_and_chunk() -> None:
    for blocks in range(1, 67):
        for xcds in range(1, 10):
            for chunk in range(1, 10):
                numbers = {chunked(pid, blocks, xcds, chunk) for pid in range(blocks)}
                assert numbers == set(range(blocks)), (blocks, xcds, chunk)


def test_tiles_are_visited_once_for_every_grid_and_window() -> None:
    for rows in range(1, 9):
        for columns in range(1, 9):
            whole = {(row, column) for row in range(rows) for column in range(columns)}
            assert {row_major(pid, rows, columns) for pid in range(rows * columns)} == whole
            for window in range(1, 11):
                assert {windowed(pid, rows, columns, window) for pid in range(rows * columns)} == whole


@pytest.mark.parametrize(("blocks", "chunk"), [(4332, 64), (4332, 542), (1728, 25), (100, 5)])
def test_an_xcd_is_dealt_consecutive_numbers(blocks: int, chunk: int) -> None:
    for xcd in range(8):
        numbers = [chunked(pid, blocks, 8, chunk) for pid in range(xcd, blocks, 8)]
        breaks = sum(after != before + 1 for before, after in itertools.pairwise(numbers))
        assert breaks <= blocks // (8 * chunk), "one run a round, and one of the rest"


@pytest.mark.needs("C++ compiler")
def test_the_header_has_the_same_functions(tmp_path: Path) -> None:
    (tmp_path / "grid.cpp").write_text(
        '#include "kernelwright_grid.h"\n'
        'extern "C" int number(int p, int b, int x, int c) { return kw::chunked(p, b, x, c); }\n'
        'extern "C" int tile(int p, int r, int c, int w) {\n'
        "  const kw::Tile t = kw::windowed(p, r, c, w); return t.row * 1000 + t.column; }\n"
    )
    compiler = shutil.which("g++") or "clang++"
    command = [compiler, "-shared", "-fPIC", f"-I{INCLUDE}", "grid.cpp", "-o", "grid.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "grid.so"))
    for blocks, xcds, chunk in ((1, 8, 1), (63, 8, 4), (64, 8, 4), (131, 6, 7), (40, 8, 64)):
        for pid in range(blocks):
            assert library.number(pid, blocks, xcds, chunk) == chunked(pid, blocks, xcds, chunk)
    for rows, columns, window in ((5, 7, 2), (8, 3, 8), (9, 4, 16)):
        for pid in range(rows * columns):
            row, column = windowed(pid, rows, columns, window)
            assert library.tile(pid, rows, columns, window) == row * 1000 + column
