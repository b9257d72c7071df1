"""Products, transposes and gathers: with vectors, or with tile registers."""

from ..expression import Gather, MatMul, Transpose
from ._places import Places
from ._writer import Writer


def print_matmul(w: Writer, places: Places, s: MatMul, *, tiles: bool) -> None:
    """Print a product."""
    if tiles:
        _matmul_tiles(w, places, s)
        return
    a, b, out = (places.arrays[n] for n in (s.a, s.b, s.out))
    unit = w.d.unit
    taken = []
    if places.resident:
        b_at = places.start(s.b) * unit
        a_row, out_row = w.li(places.start(s.a) * unit), w.li(places.start(s.out) * unit)
        a_step, out_step = places.stride(w, s.a), places.stride(w, s.out)
        b_step = places.stride(w, s.b)
    else:
        b_at = _bring_whole(w, places, s.b)
        a_row, out_row = places.address(w, s.a), places.address(w, s.out)
        a_step, out_step = w.scaled(places.size(a.cols)), w.scaled(places.size(out.cols))
        b_step = _padded(w, places, s.b)
    taken = [a_row, out_row, a_step, out_step, b_step]
    with w.count(places.size(out.rows)), w.registers("s", 2) as (a_at, out_at):
        if places.resident:
            w.move(a_at, a_row)
            w.move(out_at, out_row)
        else:
            w.op("li", d=a_at, i=places.buffer("row a", places.largest(a.cols)) * unit)
            w.op("li", d=out_at, i=places.buffer("row out", places.largest(out.cols)) * unit)
            _transfer(w, places, "din", a_at, a_row, places.size(a.cols))
        if s.transposed:
            _row_of_dots(w, places, a_at, b_at, b_step, out_at, (places.size(a.cols), places.size(b.rows)))
        else:
            _row_of_sums(w, a_at, b_at, b_step, out_at, (places.size(b.rows), places.size(b.cols)))
        if not places.resident:
            w.op("li", d=out_at, i=places.buffer("row out", places.largest(out.cols)) * unit)
            _transfer(w, places, "dout", out_at, out_row, places.size(out.cols))
        w.op("add", d=a_row, a=a_row, b=a_step)
        w.op("add", d=out_row, a=out_row, b=out_step)
    w.give("s", *taken)


def _row_of_sums(w: Writer, a_at: int, b_at: int, b_step: int, out_at: int, sizes: tuple[int, int]) -> None:
    """Print one row of a @ b: for each chunk of columns add rows of b, each times one value of a."""
    inner, columns = sizes
    with w.registers("s", 5) as (left, zero, column, at, one), w.registers("v", 3) as (total, x, y):
        w.op("li", d=zero, i=0)
        w.op("li", d=column, i=b_at)
        w.move(left, columns)
        top = w.label()
        w.place(top)
        w.op("setvl", a=left)
        w.op("vimm", d=total, f="0.0")
        w.move(at, column)
        w.move(one, a_at)
        with w.count(inner):
            w.op("vbc", d=x, a=one)
            w.op("vld", d=y, a=at)
            w.op("vfma", d=total, a=x, b=y)
            w.op("add", d=at, a=at, b=b_step)
            w.op("addi", d=one, a=one, i=w.d.unit)
        w.op("vst", x=total, a=out_at)
        for register in (out_at, column):
            w.op("addi", d=register, a=register, i=w.d.lanes * w.d.unit)
        w.op("addi", d=left, a=left, i=-w.d.lanes)
        w.op("blt", a=zero, b=left, l=top)


def _row_of_dots(
    w: Writer, places: Places, a_at: int, b_at: int, b_step: int, out_at: int, sizes: tuple[int, int]
) -> None:
    """Print one row of a @ b.T: for each row of b one product of rows."""
    inner, rows = sizes
    with w.registers("s", 5) as (left, zero, row, at, one), w.registers("v", 3) as (total, x, y):
        w.op("li", d=zero, i=0)
        w.op("li", d=row, i=b_at)
        with w.count(rows):
            w.op("setvl", a=places.count)
            w.op("vimm", d=total, f="0.0")
            w.move(left, inner)
            w.move(one, a_at)
            w.move(at, row)
            top = w.label()
            w.place(top)
            w.op("setvl", a=left)
            w.op("vld", d=x, a=one)
            w.op("vld", d=y, a=at)
            w.op("vmul", d=x, a=x, b=y)
            w.op("vrsum", d=y, a=x)
            w.op("setvl", a=places.count)
            w.op("vadd", d=total, a=total, b=y)
            for register in (one, at):
                w.op("addi", d=register, a=register, i=w.d.lanes * w.d.unit)
            w.op("addi", d=left, a=left, i=-w.d.lanes)
            w.op("blt", a=zero, b=left, l=top)
            w.op("vst1", x=total, a=out_at)
            w.op("add", d=out_at, a=out_at, b=places.one)
            w.op("add", d=row, a=row, b=b_step)


def _matmul_tiles(w: Writer, places: Places, s: MatMul) -> None:
    """Print a product with tiles: for each tile of the result one loop along the inner size."""
    a, b, out, unit, tile = places.arrays[s.a], places.arrays[s.b], places.arrays[s.out], w.d.unit, w.d.tile
    steps = [places.stride(w, n) for n in (s.a, s.b, s.out)]
    tall = [_times_tile(w, step) for step in (steps[0], steps[2], steps[1])]
    a_row, out_row = w.li(places.start(s.a) * unit), w.li(places.start(s.out) * unit)
    rows, columns, inner = places.size(out.rows), places.size(out.cols), places.size(a.cols)
    with w.registers("s", 5) as (height, width, a_at, b_at, depth), w.registers("m", 4) as (total, x, y, z):  # noqa: SIM117
        with w.count(rows, tile) as i:
            _left(w, height, rows, i, tile)
            b_column, out_at = w.li(places.start(s.b) * unit), w.take("s")
            w.move(out_at, out_row)
            with w.count(columns, tile) as j:
                _left(w, width, columns, j, tile)
                w.op("mzero", d=total)
                w.move(a_at, a_row)
                w.move(b_at, b_column)
                with w.count(inner, tile) as k:
                    _left(w, depth, inner, k, tile)
                    w.op("mshape", a=height, b=depth)
                    w.op("mld", d=x, a=a_at, s=steps[0])
                    w.op("mshape", a=width if s.transposed else depth, b=depth if s.transposed else width)
                    w.op("mld", d=y, a=b_at, s=steps[1])
                    _multiply(w, total, x, y, z, transposed=s.transposed)
                    w.op("addi", d=a_at, a=a_at, i=tile * unit)
                    if s.transposed:
                        w.op("addi", d=b_at, a=b_at, i=tile * unit)
                    else:
                        w.op("add", d=b_at, a=b_at, b=tall[2])
                w.op("mwait")
                w.op("mshape", a=height, b=width)
                w.op("mst", x=total, a=out_at, s=steps[2])
                w.op("addi", d=out_at, a=out_at, i=tile * unit)
                if s.transposed:
                    w.op("add", d=b_column, a=b_column, b=tall[2])
                else:
                    w.op("addi", d=b_column, a=b_column, i=tile * unit)
            w.give("s", b_column, out_at)
            w.op("add", d=a_row, a=a_row, b=tall[0])
            w.op("add", d=out_row, a=out_row, b=tall[1])
    w.give("s", *steps, *tall, a_row, out_row)
    del b


def _multiply(w: Writer, total: int, x: int, y: int, z: int, *, transposed: bool) -> None:
    """Add x @ y, or x @ y.T, whatever product the instruction set adds."""
    meaning = w.d.semantics.mma
    if meaning == "ATB":
        w.op("mtr", d=z, a=x)
        x = z
    if transposed != (meaning == "ABT"):
        free = y if meaning == "ATB" else z
        w.op("mtr", d=free, a=y)
        y = free
    w.op("mma", d=total, a=x, b=y)


def print_transpose(w: Writer, places: Places, s: Transpose, *, tiles: bool) -> None:
    """Print a transpose: with tiles, by strided loads, or by transfers of single words."""
    a, unit = places.arrays[s.a], w.d.unit
    rows, columns = places.size(a.rows), places.size(a.cols)
    if not places.resident:
        _transpose_by_transfers(w, places, s)
        return
    a_step, out_step = places.stride(w, s.a), places.stride(w, s.out)
    source, target = w.li(places.start(s.a) * unit), w.li(places.start(s.out) * unit)
    if tiles:
        tall, wide = _times_tile(w, a_step), _times_tile(w, out_step)
        with w.registers("s", 4) as (height, width, a_at, out_at), w.registers("m", 2) as (x, y):  # noqa: SIM117
            with w.count(rows, w.d.tile) as i:
                _left(w, height, rows, i, w.d.tile)
                w.move(a_at, source)
                w.move(out_at, target)
                with w.count(columns, w.d.tile) as j:
                    _left(w, width, columns, j, w.d.tile)
                    w.op("mshape", a=height, b=width)
                    w.op("mld", d=x, a=a_at, s=a_step)
                    w.op("mtr", d=y, a=x)
                    w.op("mshape", a=width, b=height)
                    w.op("mst", x=y, a=out_at, s=out_step)
                    w.op("addi", d=a_at, a=a_at, i=w.d.tile * unit)
                    w.op("add", d=out_at, a=out_at, b=wide)
                w.op("add", d=source, a=source, b=tall)
                w.op("addi", d=target, a=target, i=w.d.tile * unit)
        w.give("s", tall, wide)
    else:
        with (
            w.count(columns),
            w.registers("s", 5) as (left, zero, a_at, out_at, far),
            w.registers("v", 1) as (x,),
        ):
            w.op("li", d=zero, i=0)
            w.op("li", d=far, i=w.d.lanes)
            w.op("mul", d=far, a=far, b=a_step)
            w.move(left, rows)
            w.move(a_at, source)
            w.move(out_at, target)
            top = w.label()
            w.place(top)
            w.op("setvl", a=left)
            w.op("vlds", d=x, a=a_at, s=a_step)
            w.op("vst", x=x, a=out_at)
            w.op("add", d=a_at, a=a_at, b=far)
            w.op("addi", d=out_at, a=out_at, i=w.d.lanes * unit)
            w.op("addi", d=left, a=left, i=-w.d.lanes)
            w.op("blt", a=zero, b=left, l=top)
            w.op("addi", d=source, a=source, i=unit)
            w.op("add", d=target, a=target, b=out_step)
    w.give("s", a_step, out_step, source, target)


def _transpose_by_transfers(w: Writer, places: Places, s: Transpose) -> None:
    a = places.arrays[s.a]
    columns = places.size(a.cols)
    source, target, step = places.address(w, s.a), places.address(w, s.out), w.scaled(columns)
    far = w.scaled(places.size(a.rows))
    at = w.li(places.buffer("row a", places.largest(a.cols)) * w.d.unit)
    with w.count(places.size(a.rows)):
        _transfer(w, places, "din", at, source, columns)
        w.op("dshape", q=0, a=columns, b=places.count)
        w.op("dstride", q=0, a=far, b=places.one)
        w.op("dout", q=0, a=at, b=target)
        w.wait_all()
        w.op("add", d=source, a=source, b=step)
        w.op("add", d=target, a=target, b=places.one)
    w.op("dstride", q=0, a=places.zero, b=places.zero)
    w.give("s", source, target, step, far, at)


def print_gather(w: Writer, places: Places, s: Gather) -> None:
    """Print a gather: one transfer for each row, from memory."""
    table = places.arrays[s.table]
    columns, unit = places.size(table.cols), w.d.unit
    base, step, row = places.address(w, s.table), w.scaled(columns), w.take("s")
    if places.resident:
        index, out = w.li(places.start(s.index) * unit), w.li(places.start(s.out) * unit)
        near = places.stride(w, s.out)
        w.op("dshape", q=0, a=places.count, b=columns)
        with w.count(places.size(places.arrays[s.out].rows)):
            w.op("lds", d=row, a=index)
            w.op("mul", d=row, a=row, b=step)
            w.op("add", d=row, a=row, b=base)
            w.op("din", q=0, a=out, b=row)
            w.op("add", d=index, a=index, b=places.one)
            w.op("add", d=out, a=out, b=near)
        w.wait_all()
        w.give("s", near)
    else:
        index, out = places.address(w, s.index), places.address(w, s.out)
        at = w.li(places.buffer("row a", max(places.largest(table.cols), w.d.align)) * unit)
        with w.count(places.size(places.arrays[s.out].rows)):
            _transfer(w, places, "din", at, index, places.count)
            w.op("lds", d=row, a=at)
            w.op("mul", d=row, a=row, b=step)
            w.op("add", d=row, a=row, b=base)
            _transfer(w, places, "din", at, row, columns)
            _transfer(w, places, "dout", at, out, columns)
            w.op("add", d=index, a=index, b=places.one)
            w.op("add", d=out, a=out, b=step)
        w.give("s", at)
    w.give("s", base, step, row, index, out)


def _transfer(w: Writer, places: Places, kind: str, at: int, memory: int, words: int) -> None:
    w.op("dshape", q=0, a=places.count, b=words)
    w.op(kind, q=0, a=at, b=memory)
    w.wait_all()


def _bring_whole(w: Writer, places: Places, name: str) -> int:
    """Bring a whole array into a buffer with aligned rows, and return where it is in address units."""
    array = places.arrays[name]
    start = places.whole(f"whole {name}", array.rows, array.cols) * w.d.unit
    near, far = _padded(w, places, name), w.scaled(places.size(array.cols))
    base, at = places.address(w, name), w.li(start)
    w.op("dshape", q=0, a=places.size(array.rows), b=places.size(array.cols))
    w.op("dstride", q=0, a=far, b=near)
    w.op("din", q=0, a=at, b=base)
    w.wait_all()
    w.op("dstride", q=0, a=places.zero, b=places.zero)
    w.give("s", near, far, base, at)
    return start


def _padded(w: Writer, places: Places, name: str) -> int:
    """Take a register with the distance of rows that are aligned."""
    words = w.take("s")
    w.op("rup", d=words, a=places.size(places.arrays[name].cols), i=w.d.align)
    scaled = w.scaled(words)
    w.give("s", words)
    return scaled


def _left(w: Writer, d: int, size: int, done: int, most: int) -> None:
    """Print d = the smaller of size - done and most."""
    with w.registers("s", 1) as (tile,):
        w.op("li", d=tile, i=most)
        w.minus(d, size, done)
        w.op("min", d=d, a=d, b=tile)


def _times_tile(w: Writer, step: int) -> int:
    """Take a register with a distance times the rows of a tile."""
    register = w.li(w.d.tile)
    w.op("mul", d=register, a=register, b=step)
    return register
