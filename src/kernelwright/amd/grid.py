"""Block number → tile of a grid: the orders in which a GPU of several chiplets should visit tiles.

AMD's scheduler deals blocks to chiplets (XCDs) in turn: block `pid` runs on XCD `pid % xcds`. Neighbouring tiles then
land on different L2 caches. `chunked` undoes that, `windowed` shapes what one XCD holds at a time; both are bijections
for every size. `kernelwright_grid.h` has the same functions for HIP, CUDA and C++ kernels.

Source: Hu et al., HipKittens, arXiv 2511.08083, algorithm 1.
"""


def chunked(pid: int, blocks: int, xcds: int, chunk: int) -> int:
    """Renumber a block so that each XCD is dealt `chunk` consecutive numbers at a time.

    What fills no whole round is dealt in `xcds` runs of consecutive numbers too, as long as each other or one longer;
    the published function leaves it in the hardware's order.

    Args:
        pid: The hardware's number of the block.
        blocks: How many there are.
        xcds: Chiplets to which blocks are dealt in turn.
        chunk: Consecutive numbers for one XCD.

    Example:
        >>> [chunked(pid, 11, xcds=2, chunk=2) for pid in range(11)]
        [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9]
    """
    dealt = xcds * chunk
    whole = blocks // dealt * dealt
    turn, xcd = divmod(pid, xcds)
    if pid < whole:
        return turn // chunk * dealt + xcd * chunk + turn % chunk
    short, longer = divmod(blocks - whole, xcds)
    return whole + xcd * short + min(xcd, longer) + turn - whole // xcds


def row_major(pid: int, rows: int, columns: int) -> tuple[int, int]:  # noqa: ARG001 - one signature for all orders
    """Return row and column of a tile, row by row.

    Example:
        >>> row_major(5, rows=2, columns=4)
        (1, 1)
    """
    return divmod(pid, columns)


def windowed(pid: int, rows: int, columns: int, window: int) -> tuple[int, int]:
    """Return row and column of a tile, going down `window` rows before the next column; the last window may be lower.

    Example:
        >>> [windowed(pid, rows=3, columns=2, window=2) for pid in range(6)]
        [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    band, inside = divmod(pid, window * columns)
    height = min(rows - band * window, window)
    return band * window + inside % height, inside // height
