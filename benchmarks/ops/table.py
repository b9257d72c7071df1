"""The rows of a family's script as a Markdown table: how many times as fast the kernel is as the best of the others.

python -m benchmarks.ops.table benchmarks/results/cpu/2026-11-25-norms.jsonl
"""

import argparse
import json
from pathlib import Path
from typing import Any


def table(rows: list[dict[str, Any]]) -> str:
    """Return a line for each op, dtype and number of threads, in blocks of ops that have the same sizes."""
    lines: list[str] = []
    head: list[str] = []

    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["op"], row["dtype"], row["threads"]), []).append(row)
    for (op, dtype, threads), found in groups.items():
        sizes = [row["size"] for row in found]
        if sizes != head:
            head = sizes
            lines += ["", f"| op | dtype | {' | '.join(sizes)} |", "|" + "---|" * (len(sizes) + 2)]
        ratios = [f"{row['ratio']:.2f}" for row in found]
        thread = "" if threads == 1 else f", {threads} threads"
        lines.append(f"| `{op}` | {dtype}{thread} | {' | '.join(ratios)} |")
    return "\n".join(lines[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.table")
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    print(table([json.loads(line) for line in given.file.read_text().splitlines()]))
