"""The rows of `benchmarks.peers_cpu` in one picture: each problem against the best peer, and its share of the bound.

    python -m benchmarks.peers_picture ROWS.jsonl ... [--out docs/schedule/peers.svg]

A line is a problem. On the left are two marks, how many times as fast as the best peer our kernel is on memory that is
fresh at each call and on memory that is kept; on the right one, the share of what is attainable that the faster of both
reaches. Of a problem and dtype in several files the rows of the last count.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .ops.picture import Mark, picture
from .peers_cpu import PEERS

Times = dict[str, float]


def marks(rows: Iterable[dict[str, Any]]) -> list[Mark]:
    """Return the marks of rows; none of a problem that we, or all peers, have no kernel for.

    Example:
        >>> row = {"problem": "tanh", "group": "memory", "dtype": "float32", "attainable_us": 5.0}
        >>> times = {"eager": 20.0, "compile": 15.0, "own": 10.0, "own-kept": 7.5}
        >>> found = marks([{**row, "variant": name, "median_us": us} for name, us in times.items()])
        >>> [(mark.size, mark.ratio, mark.share) for mark in found]
        [('fresh', 1.5, None), ('kept', 2.0, 0.6666666666666666)]
    """
    heads: dict[tuple[str, str], dict[str, Any]] = {}
    problems: dict[tuple[str, str], Times] = {}
    for row in rows:
        if "median_us" in row:
            key = row["problem"], row["dtype"]
            heads[key] = row
            problems.setdefault(key, {})[row["variant"]] = row["median_us"]
    found = []
    for (problem, dtype), times in problems.items():
        peers = [us for name, us in times.items() if name in PEERS]
        if not peers or "own" not in times:
            continue
        kept_us = times.get("own-kept", times["own"])
        head = heads[problem, dtype]
        share = head["attainable_us"] / min(times["own"], kept_us)
        for size, us, reached in (("fresh", times["own"], None), ("kept", kept_us, share)):
            found.append(Mark(head["group"], problem, size, dtype, min(peers) / us, reached))
    return found


def main(argv: list[str] | None = None) -> int:
    """Draw the picture of some files of rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("docs/schedule/peers.svg"))
    given = parser.parse_args(argv)
    every = marks(json.loads(line) for file in given.rows for line in file.read_text().splitlines())
    if not every:
        parser.error(f"no rows of `python -m benchmarks.peers_cpu` in {', '.join(map(str, given.rows))}")
    given.out.write_text(
        picture(every, "The compiler's kernels against their peers, and their shares of the bound")
    )
    print(f"{given.out}: {len({mark.op for mark in every})} problems")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
