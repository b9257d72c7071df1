"""`kernelwright grid`: in which order the blocks of a matrix product should visit its tiles on a GPU of chiplets."""

from typing import Literal

from ._common import Common, Count, print_json, table


def grid(
    m: Count,
    n: Count,
    k: Count,
    *,
    tile: tuple[Count, Count, Count] = (256, 256, 64),
    element_bytes: Count = 2,
    gpu: Literal["MI300X", "MI355X"] = "MI300X",
    common: Common | None = None,
) -> int:
    """Simulate the caches of a GPU of several chiplets for orders of tiles; the best is first.

    Rates are those of a model and no device was used. `reuse` ranks: three times L2 and once the last-level cache.
    A kernel takes an order with `kw::chunked` and `kw::windowed` of `kernelwright_grid.h`.

    Args:
        m: Rows of the result.
        n: Columns of the result.
        k: Length of the sums.
        tile: Rows and columns of a block's tile, and how far it reads along K at a time.
        element_bytes: Bytes of an element of the operands.
        gpu: The GPU.
        common: Flags of every command.
    """
    from .. import amd

    common = common or Common()
    product = amd.Gemm(m, n, k, *tile, element_bytes)
    chip = {"MI300X": amd.MI300X, "MI355X": amd.MI355X}[gpu]
    found = amd.compare_orders(product, chip)
    rows = [
        {
            "window": str(one.window or "row-major"),
            "chunk": str(one.chunk or "-"),
            "L2": f"{one.traffic.l2:.1%}",
            "LLC": f"{one.traffic.llc:.1%}",
            "memory": f"{one.traffic.memory_bytes / 1e9:.2f} GB",
            "reuse": f"{one.reuse:.2f}",
        }
        for one in found
    ]
    if not common.json:
        table(rows, empty="no order")
        return 0
    for one in found:
        t = one.traffic
        print_json(
            "order", window=one.window, chunk=one.chunk, l2=t.l2, llc=t.llc, memory_bytes=t.memory_bytes,
            reuse=one.reuse,
        )  # fmt: skip
    print_json("result", gpu=gpu, orders=len(found))
    return 0
