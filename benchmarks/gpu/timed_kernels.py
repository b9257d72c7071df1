"""Kernels whose time is modelled here and taken on a GPU: templates, Triton's variants, convolutions, at large sizes.

    python -m benchmarks.gpu.timed_kernels --out FILE     # models all; needs nvcc, ptxas and Triton, no GPU

A part of a launch's grid is executed and counted; the model takes it for the whole grid.
"""

import argparse
import dataclasses
import functools
import json
import math
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.devices.specs import Spec, specs
from kernelwright.executor import Module, Options, Uninitialised
from kernelwright.executor._layout import GLOBAL_BASE
from kernelwright.executor._memory import Memory
from kernelwright.executor.modelled import modelled, registers_of

from ..executor_kernels import FAMILIES
from ..executor_kernels.family import BLOCK, TYPES
from .launches import Recorded, Region, assembled

DEVICES = ("h100-sxm", "h200-sxm")
GROWING = ("mirror", "reduce", "scan", "stencil", "gather", "warp_sort", "scan_raking", "scan_memoize", "scan_warps",
           "scan_larger", "sum_raking", "sum_commutative", "sum_warps", "radix_sort", "radix_pairs", "merge_sort",
           "warp_merge", "move_transpose", "move_warps", "move_vectors", "exchange", "twice", "difference", "heads",
           "warp_scan", "together", "neighbours")  # fmt: skip
"""Templates whose grid grows with their size."""
SMALL, LARGE = 64 * 128, 1 << 24
N = 4096
MATMULS = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 32, 4, 4), (64, 128, 64, 4, 3),
           (128, 64, 64, 4, 4), (64, 64, 64, 4, 3), (64, 64, 32, 4, 2), (32, 64, 64, 4, 3), (32, 32, 32, 4, 2),
           (16, 64, 64, 4, 3), (128, 128, 64, 4, 1))  # fmt: skip
"""Tile, warps and stages."""
ROWS = 8192
WARPS = (1, 2, 4, 8, 16, 32)
CONVOLUTIONS = ((32, 4, 1, 1, 0, 0, 0), (32, 4, 1, 1, 1, 0, 0), (32, 4, 2, 2, 1, 1, 0), (32, 8, 2, 4, 1, 1, 0),
                (32, 8, 4, 4, 1, 0, 0), (64, 4, 2, 2, 1, 0, 0), (64, 4, 4, 4, 0, 0, 1), (16, 16, 2, 2, 1, 1, 0),
                (16, 16, 1, 4, 0, 0, 1), (16, 8, 4, 4, 1, 1, 0), (128, 2, 2, 2, 1, 0, 0), (128, 1, 1, 4, 0, 0, 0),
                (16, 4, 1, 1, 0, 0, 0), (64, 8, 1, 2, 1, 0, 1))  # fmt: skip
"""Threads across and down, outputs of a thread across and down, shared memory, padding, read-only loads."""
WIDTH, FILTER = 4096, 15
PITCH = WIDTH + FILTER - 1


@dataclass
class Launch:
    """One launch from Python."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: list[Any]
    shared_bytes: int
    right: Callable[[], bool]
    """Whether the arguments hold what they should, after the launch."""
    touched_bytes: int = 0
    """Of the whole launch, where its parts share what they read."""


@dataclass
class Timed:
    """A kernel, launched whole and in part."""

    family: str
    name: str
    whole: Callable[[], Launch]
    part: Callable[[], Launch]
    made: dict[str, Any] = field(default_factory=dict)
    """PTX, the kernel's name in it, threads and shared memory, where a compiler says."""


class _Repeated:
    """A generator whose whole numbers repeat, since many million random ones take long."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)

    def integers(self, low: int, high: int, shape: Any) -> Any:
        return np.resize(self._rng.integers(low, high, 1 << 16, np.int32), shape)

    def permutation(self, n: int) -> Any:
        part = self._rng.permutation(1 << 16)
        return (part + (np.arange(n >> 16) << 16)[:, None]).reshape(-1)


@functools.cache
def _normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _template(name: str, kind: str, size: int) -> Launch:
    family = FAMILIES[name]
    rng: Any = _Repeated() if size == LARGE else np.random.default_rng(1)
    grid, arguments, shared, right = family.launch(rng, TYPES[kind], size)
    block = (family.block or BLOCK,)
    return Launch((grid,), block, arguments, shared, right)


def templates() -> Iterator[Timed]:
    """Yield the CUDA C++ templates, in two types."""
    for number in (0, 1):
        for name in GROWING:
            kind = FAMILIES[name].types[number]
            yield Timed("templates", f"{name}.{kind}", lambda n=name, k=kind: _template(n, k, LARGE),
                        lambda n=name, k=kind: _template(n, k, SMALL))  # fmt: skip


def _matmul(tile: Sequence[int], n: int) -> Launch:
    bm, bn, *_ = tile
    rows, columns = (n, n) if n == N else (bm, bn)
    a, b = (
        (_normal(2, N, N)[:rows] / 8).astype(np.float16),
        (_normal(3, N, N)[:, :columns] / 8).astype(np.float16),
    )
    c = Uninitialised(np.zeros((rows, columns), np.float16))

    def right() -> bool:
        some = a[[0, -1]].astype(np.float64) @ b.astype(np.float64)
        return bool(np.abs(c.array[[0, -1]] - some).max() <= 2e-3 * np.abs(some).max())

    strides = [N, 1, columns, 1, columns, 1]
    grid = (math.ceil(rows / bm), math.ceil(columns / bn))
    return Launch(grid, (), [a, b, c, rows, columns, N, *strides], 0, right, 3 * 2 * N * N)


def _rows(kind: str, rows: int) -> Launch:
    x = _normal(4, ROWS, N)[:rows]
    out = Uninitialised(np.zeros_like(x))
    d = x[:4].astype(np.float64)
    if kind == "softmax":
        e = np.exp(d - d.max(1, keepdims=True))
        expected, arguments = e / e.sum(1, keepdims=True), [x, out, N, N]
    else:
        w = np.ones(N, np.float32)
        expected = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5)
        arguments = [x, w, np.zeros_like(w), out, N, 1e-5]
    right = lambda: bool(np.abs(out.array[:4] - expected).max() <= 2e-5 * np.abs(expected).max())  # noqa: E731
    return Launch((rows,), (), arguments, 0, right)


def triton() -> Iterator[Timed]:
    """Yield Triton's products by tile, and rows by warps."""
    for tile in MATMULS:
        name = "x".join(map(str, tile[:3])) + f".warps{tile[3]}.stages{tile[4]}"
        made = {"triton": "matmul", "constants": dict(zip(("BM", "BN", "BK"), tile, strict=False)),
                "settings": {"num_warps": tile[3], "num_stages": tile[4]}}  # fmt: skip
        yield Timed("matmul", name, lambda t=tile: _matmul(t, N), lambda t=tile: _matmul(t, 0), made)
    for kind, warps in ((k, w) for k in ("softmax", "layer_norm") for w in WARPS):
        made = {"triton": kind, "constants": {"BLOCK": N}, "settings": {"num_warps": warps}}
        yield Timed(kind, f"warps{warps}", lambda k=kind: _rows(k, ROWS), lambda k=kind: _rows(k, 132), made)


def _convolution(form: Sequence[int], whole: bool) -> Launch:
    bx, by, tx, ty, *_ = form
    rows = WIDTH if whole else by * ty
    image = _normal(5, PITCH, PITCH)[: rows + FILTER - 1]
    out = Uninitialised(np.zeros((rows, WIDTH), np.float32))
    grid = (math.ceil(WIDTH / (bx * tx)), math.ceil(rows / (by * ty)))
    window = np.lib.stride_tricks.sliding_window_view(
        image[: FILTER + 1].astype(np.float64), (FILTER, FILTER)
    )
    expected = window.sum((2, 3))  # every weight is one
    there = np.s_[: min(rows, 2), : WIDTH if whole else bx * tx]
    right = lambda: bool(np.abs(out.array[there] - expected[there]).max() < 1e-3)  # noqa: E731
    return Launch(
        grid if whole else (1, 1), (bx, by), [image, out], 0, right, 4 * (PITCH * PITCH + WIDTH * WIDTH)
    )


def convolutions() -> Iterator[Timed]:
    """Yield the convolution whose times on an A100 a tuner recorded, in forms of our choice."""
    for form in CONVOLUTIONS:
        name = "block{}x{}.tile{}x{}.shared{}.padding{}.readonly{}".format(*form)
        yield Timed("convolution", name, lambda f=form: _convolution(f, True), lambda f=form: _convolution(f, False),
                    {"convolution": form})  # fmt: skip


def timed() -> list[Timed]:
    """Return all."""
    return [*triton(), *convolutions(), *templates()]


def _compiled(cases: Sequence[Timed]) -> None:
    """Note the PTX of each kernel."""
    from tests.executor import triton_kernels

    from kernelwright.executor.triton import compile_triton

    from .. import executor_battery as battery
    from ..executor_model import SOURCE, compile_cuda

    known = battery.compiled(
        [(c.name.split(".")[0], c.name.split(".")[1], 0) for c in cases if c.family == "templates"]
    )
    for c in cases:
        if c.family == "templates":
            kernel = known[c.name.replace(".", "_") + "_0"]
            c.made |= {"ptx": kernel._layout._module.text, "kernel": kernel.name, "module": kernel}
        elif c.family == "convolution":
            bx, by, tx, ty, shared, padding, constant = c.made["convolution"]
            names = {"F": FILTER, "PITCH": PITCH, "WIDTH": WIDTH, "BX": bx, "BY": by, "TX": tx, "TY": ty,
                     "SHARED": shared, "PAD": padding, "READ(at)": "__ldg(at)" if constant else "*(at)"}  # fmt: skip
            ones = SOURCE.replace(
                "weights[F * F]", "weights[F * F] = {" + ", ".join(["1"] * FILTER * FILTER) + "}"
            )
            text = "".join(f"#define {n} {v}\n" for n, v in names.items()) + ones
            c.made |= {"ptx": compile_cuda(text, target="sm_90"), "kernel": "convolve"}
        else:
            whole = c.whole()
            built = compile_triton(getattr(triton_kernels, c.made["triton"]), whole.arguments, c.made["constants"],
                                   target=90, **c.made["settings"])  # fmt: skip
            c.made |= {"ptx": built.ptx, "kernel": built.name, "threads": built.threads, "shared": built.shared_bytes,
                       "kept": built.kept}  # fmt: skip


def completed(case: Timed, launch: Launch, parameters: int) -> Launch:
    """Return a launch with what the compiler says of it: threads, shared memory, which arguments are left."""
    made = case.made
    if "kept" not in made:
        return launch
    given = [launch.arguments[n] for n in made["kept"]]
    given += [None] * (parameters - len(given))
    return dataclasses.replace(launch, block=(made["threads"],), shared_bytes=made["shared"], arguments=given)


@functools.cache
def _loaded(ptx: str) -> Module:
    return Module.load(ptx)


def _spec(name: str) -> Spec:
    """Return a device's published numbers; an H200 is an H100 with other memory."""
    return specs()["h100-sxm"].model_copy(
        update={"bandwidth": specs()[name].bandwidth, "name": specs()[name].name}
    )


def _modelled(case: Timed) -> dict[str, Any]:
    """Execute a part, and model the whole."""
    kernel = _loaded(case.made["ptx"])[case.made["kernel"]]
    count = len(kernel.parameters)
    whole, part = (completed(case, f(), count) for f in (case.whole, case.part))
    run = kernel(
        part.grid, part.block, part.arguments, shared_bytes=part.shared_bytes, options=Options(deadline_s=120)
    )
    assert run.ok, (case.name, [str(f) for f in run.findings][:3])
    scale = math.prod(whole.grid) / math.prod(part.grid)
    counters = run.counters
    if whole.touched_bytes:
        counters = dataclasses.replace(counters, touched_bytes=int(whole.touched_bytes / scale))
    target = "sm_90a" if ".target sm_90a" in case.made["ptx"] else "sm_90"
    registers = registers_of(case.made["ptx"], target, kernel.name)
    made = {d: modelled(counters, _spec(d), registers=registers, scale=scale).model_dump() for d in DEVICES}
    memory = Memory.of_arguments(kernel._layout, kernel._translation.entry, whole.arguments)
    spaces = {f"{s}_{u}": counters.total(s, u) for s in ("global", "shared") for u in ("units", "requests")}
    return {
        "family": case.family, "name": case.name, "kernel": kernel.name, "registers": registers, "scale": scale,
        "modelled": made, "right": part.right(), "grid": whole.grid, "block": whole.block,
        "counters": {"instructions": counters.instructions, "touched_bytes": counters.touched_bytes,
                     "tensor": counters.tensor, "blocks": counters.blocks, **spaces},
        "shared_bytes": whole.shared_bytes, "places": kernel.parameter_places,
        "cluster": kernel._cluster((*whole.grid, 1, 1)[:3], 1), "parameters": memory.parameters.hex(),
        "regions": [[r.name, GLOBAL_BASE + r.offset, r.size] for r in memory.regions], "kept": case.made.get("kept"),
    }  # fmt: skip


def record_of(row: dict[str, Any], image: bytes, launch: Launch) -> Recorded:
    """Return the whole launch as the driver takes it, with contents of today."""
    given = launch.arguments if row["kept"] is None else [launch.arguments[n] for n in row["kept"]]
    contents = {f"argument {n}": getattr(a, "array", a) for n, a in enumerate(given)}
    regions = tuple(
        Region(
            name,
            address,
            size,
            True,
            str(contents[name].dtype),
            np.ascontiguousarray(contents[name]).tobytes(),
        )
        for name, address, size in row["regions"]
    )
    return Recorded(
        f"{row['family']}/{row['name']}", row["kernel"], "", (*row["grid"], 1, 1)[:3], (*row["block"], 1, 1)[:3],
        tuple(row["cluster"]),
        row["shared_bytes"], bytes.fromhex(row["parameters"]), tuple((a, s) for a, s in row["places"]), regions,
        "ok", (), image=image,
    )  # fmt: skip


def main() -> int:
    """Model all and write code and rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help="families")
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [c for c in timed() if not words.only or c.family in words.only]
    _compiled(cases)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda c: _loaded(c.made["ptx"])[c.made["kernel"]], cases))
    images: dict[str, bytes] = {}
    rows = []
    with zipfile.ZipFile(words.out, "w", zipfile.ZIP_LZMA) as file:
        for case in cases:
            ptx = case.made["ptx"]
            name = f"image-{list(images).index(ptx) if ptx in images else len(images)}"
            if ptx not in images:
                images[ptx] = assembled(ptx)
                file.writestr(name, images[ptx])
            rows.append(_modelled(case) | {"image": name})
            made = rows[-1]["modelled"][DEVICES[0]]
            print(
                case.family,
                case.name,
                rows[-1]["right"],
                made["low_us"],
                made["high_us"],
                made["term"],
                flush=True,
            )
        file.writestr("rows.json", json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
