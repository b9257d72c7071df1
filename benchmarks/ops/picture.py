"""All families in one picture: how fast each op is against the best of its peers, and its share of the bound.

    python -m benchmarks.ops.picture [--results benchmarks/results/cpu] [--out docs/ops/families.svg]

It is drawn from the rows that the scripts of this folder keep with `--out`. A line is an op, a mark a size, its colour
the dtype. A share is the least time over the kernel's. The least time is that of moving the least bytes from memory
and to it, or of the multiplications, whichever is longer, on one core of the machine that the rows are from. Where
what bounds a size is the bytes, and they fit into the last cache, it has no mark: the rates of caches were not kept.
Of a size that was timed more than once the newest row counts, whatever machine it is from; where that machine's rates
were not kept, its row has no share.
"""

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.ops._least import least

COLOURS = {"float32": "#2166ac", "bfloat16": "#d6604d", "int8": "#1b7837"}
LOW, HIGH = 0.2, 20.0
"""Ends of the axis of ratios; what is beyond stands at the end."""
TITLE = "Ops of the library against their peers, and their shares of the bound"
_LEFT, _RATIOS, _GAP, _SHARES, _RIGHT, _LINE, _TOP = 200, 380, 100, 190, 24, 14, 44
_FASTER = {"float32": 1, "bfloat16": 2, "int8": 4}
"""How many times as many products as of float32 a core makes of a dtype."""


class Rates(NamedTuple):
    """What one core of a machine can do, in units a second."""

    flop: float
    """Of float32."""
    moved_bytes: float
    cache_bytes: int
    """Size of the last cache."""


RATES = {
    "2026-11-25-c-": Rates(268e9, 55e9, 32 << 20),
    "2026-11-25-": Rates(112e9, 38.1e9, 32 << 20),
}
"""By the beginning of a file's name. The first is as `kernelwright.devices` measured it; of the machine before there
are the products that the fastest kernels reached, and the rows of `adamw bytes`."""


class Mark(NamedTuple):
    """One op at one size."""

    family: str
    op: str
    size: str
    dtype: str
    ratio: float
    share: float | None


def marks(files: Iterable[Path]) -> list[Mark]:
    """Read the rows of one thread that files hold; of the same op, size and dtype the last one counts."""
    found: dict[tuple[str, ...], Mark] = {}
    for file in files:
        rates = next((r for begin, r in RATES.items() if file.name.startswith(begin)), None)
        if rates is None and "-ops-" not in file.name:
            continue
        for line in file.read_text().splitlines():
            row = json.loads(line)
            if row.get("threads") == 1:
                mark = _mark(row, rates)
                if mark is not None:
                    found[mark[:4]] = mark
    return list(found.values())


def _mark(row: dict[str, Any], rates: Rates | None) -> Mark | None:
    """Return the mark of a row; None for what is no row of an op."""
    if row.keys() >= {"layer", "tokens", "ratio"}:
        return Mark(
            "moe", f"{row['layer']} layer", str(row["tokens"]), row["dtype"], min(row["ratio"].values()), None
        )
    if row.keys() >= {"weights", "place", "of_bound"}:
        op = f"{row['weights']}, {row['activations']} activations"
        reached = row["of_bound"] if row["place"] == "memory" else None
        return Mark(
            "lowbit", op, f"{row['size']} {row['place']}", row["dtype"], min(row["ratio"].values()), reached
        )
    if "flag" in row:  # `benchmarks.ops.flags` compares a kernel with itself
        return None
    if not row.keys() >= {"family", "op", "ratio", "times_us"} or row["op"] == "adamw bytes":
        return None
    op = "masks" if row["op"].startswith("mask ") else row["op"]
    words = row["family"], op, f"{row['op']} {row['size']}", row["dtype"]
    return Mark(*words, row["ratio"], None if rates is None else share(row, rates))


def share(row: dict[str, Any], rates: Rates) -> float | None:
    """Return which share of the bound a row's kernel reached, where that can be told."""
    work = least(row["family"], row["op"], row["size"], row["dtype"])
    if work is None:
        return None
    moving_s = work.moved_bytes / rates.moved_bytes
    multiplying_s = work.flop / (rates.flop * _FASTER[row["dtype"]])
    if moving_s > multiplying_s and work.moved_bytes <= rates.cache_bytes:
        return None
    return max(moving_s, multiplying_s) / row["times_us"]["kernel"] * 1e6


def picture(every: Sequence[Mark], title: str = TITLE) -> str:
    """Draw the marks: families and ops from top to bottom, ratios on the left, shares on the right."""
    parts: list[str] = []
    y = _TOP
    by_family = sorted(every, key=lambda m: m.family)
    for family, of_family in itertools.groupby(by_family, key=lambda m: m.family):
        y += _LINE + 4
        parts.append(f'<text x="6" y="{y}" class="f">{family}</text>')
        ops: dict[str, list[Mark]] = {}
        for mark in of_family:
            ops.setdefault(mark.op, []).append(mark)
        for op, of_op in ops.items():
            y += _LINE
            parts += _line(op, of_op, y)
    return _whole(parts, y + _LINE, title)


def _line(op: str, of_op: list[Mark], y: int) -> list[str]:
    """Draw one op: its name, a tick for each size, and the mean and the least ratio in numbers."""
    ratios = [mark.ratio for mark in of_op]
    numbers = f"{statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}"
    parts = [
        f'<text x="{_LEFT - 8}" y="{y}" class="o">{op}</text>',
        f'<text x="{_LEFT + _RATIOS + 8}" y="{y}">{numbers}</text>',
    ]
    for dtype, colour in COLOURS.items():
        places = [_ratio_x(mark.ratio) for mark in of_op if mark.dtype == dtype]
        places += [_share_x(mark.share) for mark in of_op if mark.dtype == dtype and mark.share is not None]
        if places:
            ticks = "".join(f"M{x:.0f} {y - 9}v10" for x in sorted(set(map(round, places))))
            parts.append(f'<path d="{ticks}" stroke="{colour}"/>')
    return parts


def _ratio_x(ratio: float) -> float:
    kept = min(max(ratio, LOW), HIGH)
    return _LEFT + math.log(kept / LOW) / math.log(HIGH / LOW) * _RATIOS


def _share_x(share: float) -> float:
    return _LEFT + _RATIOS + _GAP + min(share, 1.0) * _SHARES


def _whole(parts: list[str], height: int, title: str) -> str:
    """Return the figure: axes, legend and what was drawn."""
    width = _LEFT + _RATIOS + _GAP + _SHARES + _RIGHT
    axes = [
        f'<text x="{_LEFT}" y="14" class="f">times as fast as the best peer</text>',
        f'<text x="{_share_x(0):.0f}" y="14" class="f">share of the bound</text>',
    ]
    for i, (dtype, colour) in enumerate(COLOURS.items()):
        axes.append(f'<text x="6" y="{14 + 13 * i}" style="fill:{colour}">{dtype}</text>')
    ticks = [(_ratio_x(ratio), f"{ratio:g}", ratio == 1) for ratio in (0.2, 0.5, 1, 2, 5, 10, 20)]
    ticks += [(_share_x(s), f"{s:.0%}", s == 1) for s in (0, 0.25, 0.5, 0.75, 1)]
    for x, words, strong in ticks:
        axes.append(f'<text x="{x:.0f}" y="{_TOP - 12}" class="m">{words}</text>')
        axes.append(f'<path d="M{x:.0f} {_TOP - 8}V{height}" stroke="{"#444" if strong else "#ddd"}"/>')
    style = (
        "text{font:11px sans-serif;fill:#333}.f{font-weight:bold}.o{text-anchor:end}.m{text-anchor:middle}"
        "path{stroke-width:1.5;fill:none}"
    )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *axes, *parts, "</svg>\n",
    ])  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Draw the picture of the rows in a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.picture")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/cpu"))
    parser.add_argument("--out", type=Path, default=Path("docs/ops/families.svg"))
    given = parser.parse_args(argv)
    every = marks(sorted(given.results.glob("*.jsonl")))
    if not every:
        parser.error(
            f"no rows in {given.results}; python -m benchmarks.ops.FAMILY --out FILE.jsonl makes some"
        )
    given.out.write_text(picture(every))
    print(f"{given.out}: {len(every)} marks of {len({m.family for m in every})} families")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
