"""How near the best known time of each problem is to what the bound calls attainable.

    taskset -c 0 python -m benchmarks.peers_cpu --threads 1 --clock cpu --out rows.jsonl
    taskset -c 0 python -m benchmarks.hand_written --out more.jsonl
    taskset -c 0 python -m benchmarks.bounds [--again] rows.jsonl more.jsonl

The best known time is the least of all variants in the rows: ours, every peer, kernels by hand. Peaks are the fastest
of many repeats, so times are those of the fastest calls. With `--again` the terms of the bound are not those of the
rows but what it says now. Variants that write to the same memory at each call take no page faults, so neither does
the bound here. A bound can be trusted where the
best known time is 0.6 to 1.0 of it; every problem outside is listed with the class of its bound and what the rows say
of the reason, `unexplained` where they say nothing. Rows that were not measured on all cores that their bound counts
are left out.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Row = Mapping[str, object]
LOW, HIGH = 0.6, 1.0
FUNCTION, MEMORY, PRODUCT, CALL = "function", "memory", "product", "call"
_FAULTS = "after page-faults"
_LEVELS = ("l1", "l2", "l3", "l4", "dram")
_FAST, _SKIPS, _PAST = "winograd", "online", "stream"
"""Actions that take fewer products than are counted: fewer multiplications, masked keys left out. The last writes past
the caches, as the bound takes it that all do."""


@dataclass(frozen=True)
class Share:
    """One problem: what is attainable, and the best known time."""

    problem: str
    kind: str
    """Class of the bound: what it counts most of."""
    attainable_us: float
    best_us: float
    variant: str
    """Which variant is the best known."""
    schedule: str
    """Steps of ours."""
    written_us: float
    """What writing the results takes, if memory is where they go."""
    call_us: float
    """What is counted for the call."""

    @property
    def value(self) -> float:
        """What is attainable over the best known time."""
        return self.attainable_us / self.best_us

    @property
    def is_within(self) -> bool:
        """Whether the bound can be trusted here."""
        return LOW <= self.value <= HIGH


def kind_of(limit: str) -> str:
    """Return the class of a bound by the name of what limits it.

    Example:
        >>> [kind_of(name) for name in ("l3-read", "pages", "tensor-float32", "exp", "launch")]
        ['memory', 'memory', 'product', 'function', 'call']
    """
    if limit.split("-")[0] in _LEVELS or limit == "pages":
        return MEMORY
    if limit.startswith("tensor-"):
        return PRODUCT
    return CALL if limit in ("launch", "parallel-region") else FUNCTION


def shares(rows: Iterable[Row]) -> list[Share]:
    """Return every problem whose rows were measured on the cores that the bound counts."""
    problems: dict[str, list[Row]] = {}
    for row in rows:
        if "least_us" in row and row["threads"] == row.get("cores") and "terms_us" in row:
            problems.setdefault(f"{row['problem']}, {row['dtype']}", []).append(row)
    return [_share(name, found) for name, found in problems.items()]


def _share(name: str, rows: Sequence[Row]) -> Share:
    best = min(rows, key=lambda row: _number(row["least_us"]))
    terms = best["terms_us"]
    assert isinstance(terms, dict)
    of = {
        kind: {n: t for n, t in terms.items() if n.startswith(kind)} for kind in ("floor", "ports", "after")
    }
    ports, floor = sum(of["ports"].values()), max(of["floor"].values(), default=0.0)
    attainable = max(ports, floor) + sum(t for n, t in of["after"].items() if n != _FAULTS)
    most = max(of["ports"] if ports > floor else of["floor"], key=lambda n: terms[n])
    schedule = next((str(r["schedule"]) for r in rows if r.get("schedule")), "")
    return Share(
        name,
        kind_of(most.split(" ", 1)[1]),
        attainable,
        _number(best["least_us"]),
        str(best["variant"]),
        schedule,
        of["floor"].get("floor dram-write", 0.0),
        of["after"].get("after call", 0.0),
    )


def reason(share: Share, call_us: float) -> str:
    """Say why a problem lies outside, as far as its rows tell.

    Args:
        share: The problem.
        call_us: The least time of any call in the same rows.
    """
    if share.value > HIGH:
        if share.kind == PRODUCT and share.variant.startswith("own") and _FAST in share.schedule:
            return "a fast algorithm takes fewer products than are counted"
        if share.kind == MEMORY:
            return "the data stayed in a nearer cache than is assumed"
        if share.kind == PRODUCT and _SKIPS in share.schedule:
            return "masked keys are skipped, and counted in full"
        own = share.variant.startswith("own")
        return "unexplained" if own or share.kind != FUNCTION else "a peer's function is faster than ours"
    plain = share.variant.startswith("own") and _PAST not in share.schedule
    if share.written_us and plain and (share.attainable_us + share.written_us) / share.best_us >= LOW:
        return "lines of the results are read before they are written over"
    called_us = share.attainable_us - share.call_us + call_us
    if share.kind == CALL or called_us / share.best_us >= LOW:
        return f"a call itself takes {call_us:.1f} us"
    return "unexplained"


def table(found: Sequence[Share]) -> str:
    """Return medians by class, how many lie within, then every problem outside and the reason."""
    if not found:
        return "no rows that were measured on all cores of their bound"
    call_us = min(share.best_us for share in found)
    within = sum(share.is_within for share in found)
    lines = [f"{len(found)} problems, {within} within {LOW} to {HIGH} of the bound"]
    for kind in (MEMORY, FUNCTION, PRODUCT, CALL):
        of = [share for share in found if share.kind == kind]
        if of:
            middle = statistics.median(share.value for share in of)
            inside = sum(share.is_within for share in of)
            lines.append(f"{kind}: {len(of)} problems, {inside} within, median {middle:.2f}")
    outside = sorted((share for share in found if not share.is_within), key=lambda share: share.value)
    lines += [
        f"{share.value:6.2f}  {share.kind:9}{share.variant:13}{share.problem:42}{reason(share, call_us)}"
        for share in outside
    ]
    return "\n".join(lines)


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} stands where a row must have a number")
    return float(value)


def again(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the terms that the bound gives their problems now."""
    from .peer_problems import PROBLEMS
    from .peers_cpu import CORES, attainable

    asked = {(row["problem"], str(row["dtype"])) for row in rows}
    terms = dict[tuple[object, str], Row]()
    with tempfile.TemporaryDirectory() as folder:
        for case, dtype in (
            (p, d) for p in PROBLEMS for d in ("float32", "bfloat16") if (p.name, d) in asked
        ):
            path = Path(folder) / f"{case.file_name}_{dtype}.py"
            path.write_text(case.text(dtype))
            terms[case.name, dtype] = {**attainable(path), "cores": CORES}
    return [{**row, **terms.get((row["problem"], str(row["dtype"])), {})} for row in rows]


def main() -> None:
    """Print the table of some files of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--again", action="store_true", help="with the bound as it is now")
    options = parser.parse_args()
    rows = [json.loads(line) for file in options.rows for line in file.read_text().splitlines()]
    print(table(shares(again(rows) if options.again else rows)))


if __name__ == "__main__":
    main()
