"""A convolution as C++: weights, image and what follows as functions of vectors, the loops in `convolution.h`."""

from ...graph import product, same
from ...tile import Axis, Call, Contraction, Load, Program, walk
from .. import Unprintable
from ._factors import factor, finish
from ._scalar import bare, size_text
from ._statements import Body

_SPACE = ("z", "y", "x")


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
    space, taps = c.columns[len(image.images) :], c.inner[-rank:]
    roles = {"item": c.batch, "row": c.rows, "image": image.images}
    phases = t.phases or (tuple((0, int(a.size)) for a in taps),)
    ranges = ", ".join(_range(phase, rank) for phase in phases)
    sizes = ", ".join(
        bare(size_text(product([a.size for a in axes])))
        for axes in (c.batch, c.rows, image.images, image.channels)
    )
    listed = [[size_text(a.size) for a in axes] for axes in (space, taps, image.at)]
    listed += [list(map(str, numbers)) for numbers in (image.strides, image.dilations, image.low)]
    fill = ["1"] * 5 + ["0"]  # of dimensions that the image lacks
    each = ", ".join(
        "{" + ", ".join([*[one] * (3 - rank), *map(bare, texts)]) + "}"
        for one, texts in zip(fill, listed, strict=True)
    )
    none: tuple[Axis, ...] = ()
    positions = dict(zip(_SPACE, [none] * (3 - rank) + [(a,) for a in image.at], strict=True))
    results = dict(zip(_SPACE, [none] * (3 - rank) + [(a,) for a in space], strict=True))
    return [
        "  // What a block of results reads is copied once, for all channels; taps are distances in that copy.",
        f"  using Tiles = kw::Direct<{_panel(c)}, {len(phases)}>;",
        *_weights(c, program),
        *factor(
            program, "image", {"item": c.batch, "channel": image.channels, "image": image.images, **positions},
            "x", image.value,
        ),
        *finish(c, body, {**roles, **results}),
        f"  const kw::Convolution sizes{{{sizes}, {each}, {image.outside!r}f}};  // groups, results, images, channels",
        f"  const kw::TapRange ranges[] = {{{ranges}}};",
        "  kw::convolve_directly<Tiles>(sizes, ranges, left, image, finish);",
    ]  # fmt: skip


def _panel(c: Contraction) -> int:
    if c.tiling.rows:
        return c.tiling.rows
    raise Unprintable("a convolution without a panel of results")


def _range(phase: tuple[tuple[int, int], ...], rank: int) -> str:
    whole = [(0, 1)] * (3 - rank) + list(phase)
    begin, end = (", ".join(str(pair[side]) for pair in whole) for side in (0, 1))
    return f"{{{{{begin}}}, {{{end}}}}}"


def _weights(c: Contraction, program: Program) -> list[str]:
    if not c.tiling.is_spread:
        return factor(program, "left", {"item": c.batch, "row": c.rows, "inner": c.inner}, "inner", c.left)
    parts = list(walk(c.left))
    read = {e.buffer for e in parts if isinstance(e, Load)}
    if len(read) != 1 or any(isinstance(e, Call) for e in parts):
        raise Unprintable("weights in panels that something else was done to")
    (name,) = read
    panel, count = _panel(c), len(c.tiling.phases) or 1
    rows = int(product([a.size for a in c.rows]))
    wide = count * (-(-(rows // count) // panel)) * panel
    wanted = product([wide, *(a.size for a in (*c.batch, *c.inner))])
    shape = program.buffer(name).shape
    if not same(product(shape), wanted) or not same(shape[-1], panel):
        raise Unprintable("weights that do not lie in panels")
    return [f"  const float* const left = {name};  // in panels"]


__all__ = ["convolution"]
