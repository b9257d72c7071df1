"""Parts with their times → a treemap as inline SVG: the area of a rectangle is its time."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ._charts import WIDTH, microseconds

_CHARACTER, _LINE = 6.8, 16.0
"""Width of a character and height of a line of a label."""


@dataclass(frozen=True)
class Part:
    """One rectangle."""

    name: str
    """Its label."""
    time_us: float
    """Microseconds."""
    place: str = ""
    """What it is part of, for a line of its own."""
    style: str = "native"
    """`native`, `kernel` or `between`; the style sheet colours it."""
    note: str = ""
    """More for the tooltip."""


@dataclass(frozen=True)
class Box:
    """A part's place."""

    part: Part
    x: float
    y: float
    width: float
    height: float


def squarified(parts: Sequence[Part], width: float, height: float) -> list[Box]:
    """Fill a rectangle with parts whose areas are their times, as near to squares as rows of them allow.

    Source: Bruls, Huizing and van Wijk, Squarified Treemaps, 2000, section 3.

    Example:
        >>> [(b.width, b.height) for b in squarified([Part("a", 3.0), Part("b", 1.0)], 4.0, 1.0)]
        [(3.0, 1.0), (1.0, 1.0)]
    """
    left = sorted((p for p in parts if p.time_us > 0), key=lambda p: -p.time_us)
    total, boxes, x, y = sum(p.time_us for p in left), list[Box](), 0.0, 0.0
    scale = width * height / total if total else 0.0
    while left:
        upright = width >= height
        side = height if upright else width
        count = 1
        while count < len(left) and _worst(left[: count + 1], side, scale) <= _worst(
            left[:count], side, scale
        ):
            count += 1
        row, left = left[:count], left[count:]
        deep, at = sum(p.time_us for p in row) * scale / side, 0.0
        for part in row:
            along = part.time_us * scale / deep
            boxes.append(Box(part, x, y + at, deep, along) if upright else Box(part, x + at, y, along, deep))
            at += along
        if upright:
            x, width = x + deep, width - deep
        else:
            y, height = y + deep, height - deep
    return boxes


def _worst(row: Sequence[Part], side: float, scale: float) -> float:
    """Return the largest ratio of sides in a row of parts along a side."""
    areas = [p.time_us * scale for p in row]
    deep = sum(areas) / side
    return max(max(deep * deep / area, area / (deep * deep)) for area in areas)


def treemaps(maps: Sequence[tuple[str, Sequence[Part]]], height: float = 250.0) -> Markup:
    """Draw treemaps under one another; areas are times on one scale, and the first is as wide as the page."""
    first = sum(p.time_us for p in maps[0][1])
    parts, top = list[str](), 0.0
    for title, rows in maps:
        total = sum(p.time_us for p in rows)
        ratio = (total / first) ** 0.5
        wide, high = (WIDTH * ratio, height * ratio) if ratio < 1 else (float(WIDTH), height * ratio * ratio)
        parts.append(
            f'<text class="title" x="0" y="{top + 14:.1f}">{escape(title)}: {microseconds(total)}</text>'
        )
        parts += [_drawn(box, top + 22) for box in squarified(rows, wide, high)]
        top += high + 44
    inner = "\n".join(parts)
    return Markup(  # every piece of text in `parts` is a figure or already escaped
        f'<svg viewBox="0 0 {WIDTH} {top - 18:.0f}" role="img" aria-label="Time by part">{inner}</svg>'
    )


def _drawn(box: Box, top: float) -> str:
    part = box.part
    more = f", {part.note}" if part.note else ""
    tip = escape(f"{part.place} {part.name}: {microseconds(part.time_us)}{more}".strip())
    drawn = (
        f'<g class="part {part.style}"><title>{tip}</title><rect x="{box.x:.1f}" y="{box.y + top:.1f}" '
        f'width="{max(box.width - 1.5, 0.5):.1f}" height="{max(box.height - 1.5, 0.5):.1f}" rx="2"/>'
    )
    room = int((box.width - 12) / _CHARACTER)
    fitting = int((box.height - 4) / _LINE) if room >= 4 else 0
    lines = [part.name, microseconds(part.time_us), *([part.place] if part.place else [])]
    for number, line in enumerate(lines[:fitting]):
        short = line if len(line) <= room else f"{line[: room - 1]}…"
        drawn += (
            f'<text x="{box.x + 6:.1f}" y="{box.y + top + _LINE * (number + 1):.1f}">{escape(short)}</text>'
        )
    return f"{drawn}</g>"
