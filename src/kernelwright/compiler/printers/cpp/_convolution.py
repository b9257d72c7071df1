"""A convolution as C++: weights, image and what follows as functions of vectors, the loops in `convolution.h`."""

from collections.abc import Sequence

from ...graph import product, same
from ...tile import Axis, Call, Contraction, Load, Program, walk
from .. import Unprintable
from ._factors import factor, finish
from ._scalar import bare, size_text
from ._statements import Body

_SPACE = ("z", "y", "x")
_SQUARES = {"winograd-2": 2, "winograd-3": 3, "winograd-4": 4}
"""Results of a tile along each dimension."""
_BACK = ("lt", "le", "ge", "and", "sub", "mul", "add")
"""Operations by which weights are told from their transforms."""
_MANY = 32
"""Results of a group from which on what they read is packed for all of them."""
_SHARES, _MOST_DOWN = 3, 16
"""Taps downwards from which on rows of results share what they load, and up to which a tile's rows are printed."""
PANEL = 16
"""Results of a panel of weights where lanes run along them, as `channels_last.h` has them."""


def convolution(c: Contraction, program: Program, body: Body) -> list[str]:
    """Print the body of the kernel's function.

    Args:
        c: A convolution with its image, whose indices are offsets (`merged`).
        program: What it is a step of.
        body: Prints what follows.

    Raises:
        Unprintable: weights were to lie in panels, and do not; or the image has no lanes.
    """
    image = c.image
    assert image is not None
    rank, t = len(image.at), c.tiling
    space, taps = space_of(c), c.inner[-rank:]
    roles = {"item": c.batch, "row": c.rows, "image": image.images}
    phases = t.phases or (tuple((0, int(a.size)) for a in taps),)
    ranges = ", ".join(_range(phase, rank) for phase in phases)
    none: tuple[Axis, ...] = ()
    positions = dict(zip(_SPACE, [none] * (3 - rank) + [(a,) for a in image.at], strict=True))
    results = dict(zip(_SPACE, [none] * (3 - rank) + [(a,) for a in space], strict=True))
    read = factor(
        program,
        "image",
        {"item": c.batch, "channel": image.channels, "image": image.images, **positions},
        "x",
        image.value,
        is_walked=True,
        is_asked=True,
    )
    after = [
        *finish(c, body, {**roles, **results}), sizes_of(c), f"  const kw::TapRange ranges[] = {{{ranges}}};"
    ]  # fmt: skip
    if t.form in _SQUARES:
        return _by_squares(c, program, [*read, *after])
    near = "true" if {*image.strides[-2:]} == {1} else "false"
    return [
        "  // What a block of results reads is copied once, for all channels; taps are distances in that copy.",
        f"  using Tiles = {_direct(c)};",
        *_weights(c, program), *read, *after,
        f"  kw::convolve_directly<Tiles, {near}>(sizes, ranges, left, image, finish);",
    ]  # fmt: skip


def convolving(c: Contraction) -> list[str]:
    """Name what depends on no kernel in a direct convolution."""
    return [f"kw::{name}<{_direct(c)}>" for name in ("Convolving", "Blocks")]


def _direct(c: Contraction) -> str:
    phases = len(c.tiling.phases) or 1
    return f"kw::Direct<{', '.join(map(str, (_panel(c), phases, *(_shared(c) or _packed(c)))))}>"


def _by_squares(c: Contraction, program: Program, functions: list[str]) -> list[str]:
    """Print a convolution that transforms tiles of results, with weights that were transformed ahead."""
    assert c.image is not None
    rank, phases = len(c.image.at), len(c.tiling.phases) or 1
    results, dims, taps = _SQUARES[c.tiling.form], min(rank, 2), 2 if c.tiling.phases else 3
    rows = -(-int(product([a.size for a in c.rows])) // phases // PANEL) * PANEL * phases
    tile = (results + taps - 1) ** dims
    window = int(product([a.size for a in c.inner[-rank:]]))
    summed = 1 if c.tiling.phases else window // taps**dims
    elements = product([rows, tile, summed, *(a.size for a in (*c.batch, *c.image.channels))])
    weights = weights_in_panels(c, program, elements, PANEL, _BACK)
    return [
        f"  // Tiles of {results**dims} results, of {tile} products a channel.",
        *functions,
        f"  using Square = kw::Square<{results}, {taps}, {dims}>;",
        f"  kw::convolve_tiles<Square>(sizes, ranges, {weights}, image, finish);",
    ]


def space_of(c: Contraction) -> tuple[Axis, ...]:
    """Return the axes of the results' positions."""
    assert c.image is not None
    return c.columns[len(c.image.images) :]


def sizes_of(c: Contraction) -> str:
    """Print what `kw::Convolution` holds."""
    image = c.image
    assert image is not None
    rank = len(image.at)
    sizes = ", ".join(
        bare(size_text(product([a.size for a in axes])))
        for axes in (c.batch, c.rows, image.images, image.channels)
    )
    listed = [[size_text(a.size) for a in axes] for axes in (space_of(c), c.inner[-rank:], image.at)]
    listed += [list(map(str, numbers)) for numbers in (image.strides, image.dilations, image.low)]
    fill = ["1"] * 5 + ["0"]  # of dimensions that the image lacks
    each = ", ".join(
        "{" + ", ".join([*[one] * (3 - rank), *map(bare, texts)]) + "}"
        for one, texts in zip(fill, listed, strict=True)
    )
    listed_first = "groups, results, images, channels"
    return f"  const kw::Convolution sizes{{{sizes}, {each}, {image.outside!r}f}};  // {listed_first}"


def _panel(c: Contraction) -> int:
    if c.tiling.rows:
        return c.tiling.rows
    raise Unprintable("a convolution without a panel of results")


def _shared(c: Contraction) -> tuple[int, ...]:
    """Return the taps of the last two dimensions where rows of results share what they load; none elsewhere."""
    image, t = c.image, c.tiling
    if image is None or t.phases or _panel(c) > 1 or len(image.at) < 2:
        return ()
    down, across = (int(a.size) for a in c.inner[-2:])
    near = {*image.strides[-2:], *image.dilations[-2:]} == {1}
    return (down, across) if near and _SHARES <= down <= _MOST_DOWN else ()


def _packed(c: Contraction) -> tuple[str, ...]:
    """Return that what a tile of results reads is packed, where enough rows of results share it; none elsewhere."""
    many = int(product([a.size for a in c.rows])) >= _MANY
    return ("0", "0", "true") if many and not c.tiling.phases else ()


def _range(phase: tuple[tuple[int, int], ...], rank: int) -> str:
    whole = [(0, 1)] * (3 - rank) + list(phase)
    begin, end = (", ".join(str(pair[side]) for pair in whole) for side in (0, 1))
    return f"{{{{{begin}}}, {{{end}}}}}"


def _weights(c: Contraction, program: Program) -> list[str]:
    if not c.tiling.is_spread:
        return factor(program, "left", {"item": c.batch, "row": c.rows, "inner": c.inner}, "inner", c.left)
    panel, count = _panel(c), len(c.tiling.phases) or 1
    rows = int(product([a.size for a in c.rows]))
    wide = count * (-(-(rows // count) // panel)) * panel
    wanted = product([wide, *(a.size for a in (*c.batch, *c.inner))])
    return [f"  const float* const left = {weights_in_panels(c, program, wanted, panel)};  // in panels"]


def weights_in_panels(
    c: Contraction, program: Program, elements: int, panel: int, back: Sequence[str] = ()
) -> str:  # fmt: skip
    """Name the buffer of weights that lie in panels.

    Args:
        c: The convolution.
        program: What it is a step of.
        elements: Of the weights as they lie.
        panel: Results of a panel.
        back: Operations by which they are told from their transforms.

    Raises:
        Unprintable: they lie otherwise.
    """
    parts = list(walk(c.left))
    read = {e.buffer for e in parts if isinstance(e, Load)}
    if len(read) != 1 or {e.op for e in parts if isinstance(e, Call)} - {*back}:
        raise Unprintable("weights in panels that something else was done to")
    (name,) = read
    shape = program.buffer(name).shape
    if not same(product(shape), elements) or not same(shape[-1], panel):
        raise Unprintable("weights that do not lie in panels")
    return name


__all__ = ["PANEL", "convolution", "convolving", "sizes_of", "space_of", "weights_in_panels"]
