"""A convolution with lanes along channels as C++: where the image lies, what follows; loops in `channels_last.h`."""

from ...graph import product, same
from ...tile import (
    Axis,
    Contraction,
    Load,
    Position,
    Program,
    known_size,
    number,
    positions,
    stride,
    substitute,
)
from .. import Unprintable
from ._convolution import PANEL, sizes_of, space_of, weights_in_panels
from ._factors import finish
from ._scalar import bare, size_text
from ._statements import Body


def channels_last(c: Contraction, program: Program, body: Body) -> list[str]:
    """Print the body of the kernel's function.

    Args:
        c: A convolution with its image, whose indices are offsets (`merged`).
        program: What it is a step of.
        body: Prints what follows.

    Raises:
        Unprintable: weights do not lie in panels, the image is not in memory, or results have no lanes along channels.
    """
    image = c.image
    assert image is not None
    rows, groups, each = (int(product([a.size for a in axes])) for axes in (c.rows, c.batch, image.channels))
    alone = rows == 1 and each == 1
    along = (c.batch if alone else c.rows)[-1:]
    if not along or (len(c.batch if alone else c.rows) > 1 and int(along[0].size) % PANEL):
        raise Unprintable("no channels side by side for lanes to run along")
    panel = groups if alone else PANEL
    wide = 1 if alone else -(-rows // PANEL) * PANEL
    elements = product([wide, groups, *(a.size for a in c.inner)])
    weights = weights_in_panels(c, program, elements, panel)
    roles = {"item": c.batch, "row": c.rows, "image": image.images}
    none: tuple[Axis, ...] = ()
    space = [none] * (3 - len(image.at)) + [(a,) for a in space_of(c)]
    results = dict(zip(("z", "y", "x"), space, strict=True))
    return [
        "  // Elements are read where they lie; lanes run along channels of results.",
        f"  const kw::Located image{{{_located(c, program)}}};  // from one image, group, channel, position",
        *finish(c, body, {**roles, **results}, along[0]),
        sizes_of(c),
        f"  kw::convolve_channels<{'true' if alone else 'false'}>(sizes, image, {weights}, finish);",
    ]  # fmt: skip


def _located(c: Contraction, program: Program) -> str:
    """Return where the image lies, and how far its elements are apart, as C++."""
    image = c.image
    assert image is not None
    value = image.value
    if not isinstance(value, Load) or program.buffer(value.buffer).dtype != "float32":
        raise Unprintable("an image that is not in memory")
    place = value.index[-1]
    axes = [image.images, c.batch, image.channels, *((a,) for a in image.at)]
    begin = known_size(substitute(place, lambda e: number(0) if isinstance(e, Position) else None))
    if (
        begin is None
        or any(len(one) > 1 for one in axes)
        or positions(place) - {a.name for one in axes for a in one}
    ):
        raise Unprintable("an image whose axes are taken apart")
    steps = [known_size(stride(place, one[0].name)) if one else 0 for one in axes]
    if None in steps:
        raise Unprintable("an image that does not lie in steps")
    texts = [bare(size_text(step)) for step in steps if step is not None]
    if int(product([a.size for a in image.channels])) == 1:
        texts[2] = "1"  # one channel lies next to itself
        if texts[1] != "1" and int(product([a.size for a in c.rows])) == 1:
            raise Unprintable("filters of channels that do not lie side by side")
    missing = ["0"] * (3 - len(image.at))
    start = "" if same(begin, 0) else f" + {size_text(begin)}"
    return f"{value.buffer}{start}, {', '.join(texts[:3])}, {{{', '.join([*missing, *texts[3:]])}}}"


__all__ = ["channels_last"]
