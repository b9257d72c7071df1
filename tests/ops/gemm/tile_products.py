"""Build products by the tile unit, or by its model, and hold them to what is right, in processes of their own too.

python tests/ops/gemm/tile_products.py LIBRARY      exit code 1, and a line for each product that is wrong
"""

import ctypes
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_suffix(".cpp")
NATIVE = "-mcpu=native" if platform.machine() == "aarch64" else "-march=native"
MODEL = (NATIVE, "-O0", "-DKW_TILE_MODEL")
REAL = (NATIVE, "-mamx-tile", "-mamx-bf16", "-mamx-int8")
SIZES = (
    (4, 32, 1), (5, 40, 15), (16, 32, 16), (17, 33, 17), (31, 1, 5), (32, 64, 32), (33, 70, 33), (64, 31, 128),
    (200, 96, 40),
)  # fmt: skip
"""Rows, columns, steps of four bytes."""
TRIPLES = 400_000
TILES, VECTORS, OWN = 1, 0, -1


def build(
    folder: Path, flags: tuple[str, ...], changes: Mapping[str, str] | None = None, *, link: bool = True
) -> Path:
    """Compile the products, with texts of the headers changed, each of which stands in one place alone."""
    from kernelwright.languages.cpp import ffi_includes
    from kernelwright.languages.vectors import headers_of
    from kernelwright.ops._core.kernel import HEADERS

    texts = {header.path: header.text for header in headers_of(SOURCE.read_text(), HEADERS)}
    for old, new in (changes or {}).items():
        (name,) = (name for name, text in texts.items() if text.count(old) == 1)
        texts[name] = texts[name].replace(old, new)
    for name, text in texts.items():
        (folder / name).write_text(text)
    made = folder / ("products.so" if link else "products.o")
    kind = ("-shared", "-fPIC") if link else ("-c",)
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-fopenmp",
        "-fno-gnu-unique",  # what one library knows of its unit is not another's
        "-Wall",
        "-Wextra",
        "-Wno-psabi",
        "-Wno-unused-but-set-variable",
    ]
    command += [*kind, *flags, f"-I{folder}", *ffi_includes(), str(SOURCE), "-o", str(made)]
    subprocess.run(command, check=True, timeout=200)
    return made


def rounded(x: np.ndarray) -> np.ndarray:
    """Return bfloat16 as its bits, cut off."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def wide(bits: np.ndarray) -> np.ndarray:
    """Return float32 of the bits of bfloat16."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def panels_of(right: np.ndarray) -> np.ndarray:
    """Lay out (elements, columns) as (panels, steps, 32, elements of four bytes), with ones behind the last column."""
    together = 4 // right.itemsize
    padded = np.pad(right, ((0, 0), (0, -right.shape[1] % 32)), constant_values=255)
    parts = padded.reshape(-1, together, padded.shape[1] // 32, 32)
    return np.ascontiguousarray(parts.transpose(2, 0, 3, 1))


def called(library: ctypes.CDLL, name: str, left: np.ndarray, right: np.ndarray, more: int = 0) -> np.ndarray:
    """Multiply rows of a library's own layout, `more` bytes of ones behind each."""
    inside = left.view(np.uint8).reshape(len(left), -1)
    held = np.pad(inside, ((0, 0), (0, more)), constant_values=255)
    panels = panels_of(right)
    canary = 77
    out = np.full((len(left) + 1, right.shape[1]), canary, np.int32 if name == "quads" else np.float32)
    at = [ctypes.c_void_p(x.ctypes.data) for x in (held, panels, out)]
    number = ctypes.c_int64
    getattr(library, name)(
        at[0],
        number(held.shape[1]),
        number(len(left)),
        at[1],
        number(right.shape[1]),
        number(panels.shape[1]),
        at[2],
    )
    assert (out[-1] == canary).all(), "written behind the last row"
    return out[:-1]


def flushed(x: np.ndarray) -> np.ndarray:
    """Return float32 with zeros for what is subnormal."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(
        np.float32
    )


def by_the_manual(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Multiply as TDPBF16PS does, 16 pairs at a time; products of the values given must be float32's own."""
    x, y = flushed(wide(left)), flushed(wide(right))
    sums = np.zeros((len(left), right.shape[1]), np.float32)
    for first in range(0, x.shape[1], 32):
        parts = [np.zeros_like(sums), np.zeros_like(sums)]
        for k in range(first, min(first + 32, x.shape[1])):
            parts[k % 2] = flushed(parts[k % 2] + x[:, k, None] * y[None, k])
        sums = flushed(sums + flushed(parts[0] + parts[1]))
    return sums


def drawn(size: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw factors of bfloat16, and of bytes whose sums are as large as they can be in places."""
    rows, columns, steps = size
    random = np.random.default_rng(seed)
    left, right = random.standard_normal((rows, 2 * steps)), random.standard_normal((2 * steps, columns))
    one = random.integers(-128, 128, (rows, 4 * steps), dtype=np.int8)
    two = random.integers(0, 256, (4 * steps, columns), dtype=np.uint8)
    one[0], two[:, 0] = -128, 255
    return rounded(left), rounded(right), one, two


def arithmetic(library: ctypes.CDLL) -> tuple[int, int]:
    """Return how many triples of numbers the processor and the model multiply and add, and how many otherwise."""
    counts = (ctypes.c_int64 * 2)()
    library.arithmetic(ctypes.c_int64(TRIPLES), ctypes.byref(counts), ctypes.byref(counts, 8))
    return counts[0], counts[1]


def wrong(library: ctypes.CDLL, *, by_tiles: bool) -> list[str]:
    """Return what is wrong with products of every size, with rows side by side and apart."""
    found = []
    for i, size in enumerate(SIZES):
        left, right, one, two = drawn(size, i)
        if not np.array_equal(
            called(library, "quads", one, two, 8 * i), one.astype(np.int64) @ two.astype(np.int64)
        ):
            found.append(f"bytes of {size}")
        sums = called(library, "pairs", left, right, 8 * i)
        x, y = wide(left).astype(np.float64), wide(right).astype(np.float64)
        if not (np.abs(sums - x @ y) <= 2.0**-22 * (np.abs(x) @ np.abs(y))).all():
            found.append(f"pairs of {size}")
        if by_tiles and not np.array_equal(sums.view(np.int32), by_the_manual(left, right).view(np.int32)):
            found.append(f"pairs of {size}, bit by bit")
    if by_tiles:
        if not library.usable():
            found.append("small numbers, so that vectors multiply")
        counts = np.zeros(4, np.int64)
        library.counted(ctypes.c_void_p(counts.ctypes.data))
        if arithmetic(library)[1]:
            found.append("numbers near the least normal one")
        if not counts[2] or counts[3] or counts[0] > 2 * counts[1]:
            found.append(f"configurations, releases, products, configured: {counts.tolist()}")
    return found


if __name__ == "__main__":
    said = wrong(ctypes.CDLL(sys.argv[1]), by_tiles=True)
    print("\n".join(said))
    sys.exit(bool(said))
