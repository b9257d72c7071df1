"""Figures → inline SVG charts; colours and fonts come from the page's style sheet."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from markupsafe import Markup, escape

WIDTH = 860


@dataclass(frozen=True)
class Point:
    """One candidate on the time axis."""

    at_s: float
    time_us: float
    status: str
    """A `DecisionStatus`; the style sheet colours it."""
    label: str


@dataclass(frozen=True)
class Level:
    """A labelled horizontal line: the bound or a baseline."""

    name: str
    time_us: float
    style: str


def microseconds(time_us: float) -> str:
    """Format a time with three significant digits and its unit.

    Example:
        >>> microseconds(1234.5), microseconds(0.5), microseconds(12.34)
        ('1.23 ms', '500 ns', '12.3 µs')
    """
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if time_us >= factor:
            return f"{_digits(time_us / factor)} {unit}"
    return f"{_digits(time_us * 1e3)} ns"


def _digits(value: float) -> str:
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{min(decimals, 3)}f}"


def timeline(points: Sequence[Point], levels: Sequence[Level]) -> Markup:
    """Plot every timed candidate over the run's seconds, with log time upwards and best-so-far as a step line."""
    if not points:
        return Markup("")
    height, left, right, top, bottom = 320, 70, 170, 14, 34
    times = [p.time_us for p in points] + [level.time_us for level in levels]
    low, high = min(times) / 1.12, max(times) * 1.12
    last_s = max((p.at_s for p in points), default=0.0) or 1.0

    def x(at_s: float) -> float:
        return left + at_s / last_s * (WIDTH - left - right)

    def y(time_us: float) -> float:
        return top + (math.log(high / time_us) / math.log(high / low)) * (height - top - bottom)

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{y(t) + 4:.1f}">{microseconds(t)}</text>'
        for t in _log_ticks(low, high)
    ]
    parts += [
        f'<text class="tick middle" x="{x(t):.1f}" y="{height - 12}">{t:g} s</text>' for t in ticks(last_s)
    ]
    for level, text_y in zip(levels, _spread([y(level.time_us) for level in levels]), strict=True):
        parts.append(
            f'<line class="level {level.style}" x1="{left}" x2="{WIDTH - right}" '
            f'y1="{y(level.time_us):.1f}" y2="{y(level.time_us):.1f}"/>'
            f'<text class="name {level.style}" x="{WIDTH - right + 8}" y="{text_y + 4:.1f}">'
            f"{_named(level.name, 22)}</text>"
        )
    steps = _best_so_far(points)
    if steps:
        path = f"M{x(steps[0][0]):.1f},{y(steps[0][1]):.1f}" + "".join(
            f"H{x(s):.1f}V{y(t):.1f}" for s, t in steps[1:]
        )
        parts.append(f'<path class="best" d="{path}H{WIDTH - right}"/>')
    parts += [
        f'<circle class="dot {p.status}" cx="{x(p.at_s):.1f}" cy="{y(p.time_us):.1f}" r="4.5">'
        f"<title>{escape(p.label)}</title></circle>"
        for p in points
    ]
    return _svg(height, parts, "Every timed candidate over the run")


def intervals(rows: Sequence[tuple[str, float, float, float]], least_effect: float) -> Markup:
    """Plot one speedup with its interval per row: (name, median, low, high); 1 is the baseline."""
    if not rows:
        return Markup("")
    step, left, right, top = 34, 280, 90, 8
    height = top + step * len(rows) + 30
    low = min(1.0, *(r[2] for r in rows)) / 1.05
    high = max(1.0 + least_effect, *(r[3] for r in rows)) * 1.05

    def x(ratio: float) -> float:
        return left + math.log(ratio / low) / math.log(high / low) * (WIDTH - left - right)

    parts = [
        f'<rect class="dead" x="{x(1):.1f}" width="{x(1 + least_effect) - x(1):.1f}" y="{top}" '
        f'height="{step * len(rows)}"/><line class="level baseline" x1="{x(1):.1f}" x2="{x(1):.1f}" '
        f'y1="{top}" y2="{top + step * len(rows)}"/>'
        f'<text class="tick middle" x="{x(1):.1f}" y="{height - 8}">1 = baseline</text>'
    ]
    for index, (name, median, lower, upper) in enumerate(rows):
        middle = top + step * (index + 0.5)
        parts.append(
            f'<text class="row end" x="{left - 14}" y="{middle + 4:.1f}">{_named(name, 28)}</text>'
            f'<line class="whisker" x1="{x(lower):.1f}" x2="{x(upper):.1f}" y1="{middle}" y2="{middle}"/>'
            f'<circle class="dot improved" cx="{x(median):.1f}" cy="{middle}" r="5"/>'
            f'<text class="value" x="{WIDTH - right + 10}" y="{middle + 4:.1f}">{median:.2f}×</text>'
        )
    return _svg(height, parts, "Speedup by workload")


def headroom(levels: Sequence[Level]) -> Markup:
    """Draw bound, kernel and baselines as bars on one linear scale, the bound first."""
    step, left, right = 36, 190, 110
    longest = max(level.time_us for level in levels)
    parts = []
    for index, level in enumerate(levels):
        width = max(2.0, level.time_us / longest * (WIDTH - left - right))
        top = index * step + 6
        parts.append(
            f'<text class="row end" x="{left - 12}" y="{top + 17}">{_named(level.name, 22)}</text>'
            f'<rect class="bar {level.style}" x="{left}" y="{top}" width="{width:.1f}" height="24" rx="3"/>'
            f'<text class="value" x="{left + width + 10:.1f}" y="{top + 17}">{microseconds(level.time_us)}</text>'
        )
    return _svg(step * len(levels) + 6, parts, "Time against the bound")


def curves(
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]], across: str, title: str
) -> Markup:
    """Plot shares, from 0 to 1 upwards, as one line each: (name, style, points); `across` names what x is."""
    height, left, right, top, bottom = 300, 60, 170, 14, 44
    places = [x for _, _, points in series for x, _ in points]
    low, high = min(places), max(places)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (WIDTH - left - right)

    def y(share: float) -> float:
        return top + (1 - share) * (height - top - bottom)

    parts = [
        f'<line class="grid" x1="{left}" x2="{WIDTH - right}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{y(t) + 4:.1f}">{t:.0%}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    parts += [
        f'<text class="tick middle" x="{x(t):.1f}" y="{height - 22}">{t:g}</text>'
        for t in range(math.ceil(low), math.floor(high) + 1)
    ]
    parts.append(
        f'<text class="tick middle" x="{(left + WIDTH - right) / 2}" y="{height - 4}">{escape(across)}</text>'
    )
    ends = _spread([y(points[-1][1]) for _, _, points in series])
    for (name, style, points), text_y in zip(series, ends, strict=True):
        path = "M" + "L".join(f"{x(place):.1f},{y(share):.1f}" for place, share in points)
        parts.append(
            f'<path class="curve {style}" d="{path}"/>'
            f'<text class="name {style}" x="{WIDTH - right + 8}" y="{text_y + 4:.1f}">{_named(name, 22)}</text>'
        )
    return _svg(height, parts, title)


def counts(
    rows: Sequence[tuple[str, int]],
    title: str = "Failures by kind",
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Markup:
    """Draw one bar per name, in the order given; a style by name, else that of a failure."""
    if not rows:
        return Markup("")
    step, left = 28, 220
    most = max(count for _, count in rows)
    parts = [
        f'<text class="row end" x="{left - 12}" y="{i * step + 18}">{_named(name, 26)}</text>'
        f'<rect class="bar {styles.get(name, "failed")}" x="{left}" y="{i * step + 5}" '
        f'width="{count / most * 420:.1f}" height="18" rx="3"/>'
        f'<text class="value" x="{left + count / most * 420 + 10:.1f}" y="{i * step + 18}">{count}</text>'
        for i, (name, count) in enumerate(rows)
    ]
    return _svg(step * len(rows) + 6, parts, title)


def _svg(height: float, parts: Sequence[str], title: str) -> Markup:
    inner = "\n".join(parts)
    return Markup(  # every piece of text in `parts` is a figure or already escaped
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">{inner}</svg>'
    )


def _best_so_far(points: Sequence[Point]) -> list[tuple[float, float]]:
    steps: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda p: p.at_s):
        sound = point.status not in {"rejected", "unknown"}
        if sound and (not steps or point.time_us < steps[-1][1]):
            steps.append((point.at_s, point.time_us))
    return steps


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = high / low > 30
    ticks = [m * 10.0**d for d in decades for m in ((1,) if few else (1, 2, 3, 5, 7))]
    return [t for t in ticks if low <= t <= high]


def ticks(last: float) -> list[float]:
    """Return round numbers from 0 up to the last.

    Example:
        >>> ticks(10.0)
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    raw = last / 6
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw)
    return [step * i for i in range(int(last / step) + 1)]


def _spread(heights: Sequence[float], gap: float = 15.0) -> list[float]:
    """Move labels apart so that none overlap; order and positions are kept if possible."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = list(heights)
    for before, after in itertools.pairwise(order):
        placed[after] = max(placed[after], placed[before] + gap)
    return placed


def _named(text: str, most: int) -> Markup:
    """Shorten a long name in the middle, with the full name as a tooltip.

    Example:
        >>> _named("rows=4096,columns=1024", 13)
        Markup('rows=4…s=1024<title>rows=4096,columns=1024</title>')
    """
    short = text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"
    return Markup("{}<title>{}</title>").format(short, text)
