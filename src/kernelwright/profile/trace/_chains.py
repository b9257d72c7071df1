"""Kernels that follow each other again and again: candidates for one kernel in place of several."""

import itertools
from collections import Counter
from collections.abc import Sequence

from ...records import Record
from ._launches import Linked
from ._spans import Kind

LONGEST = 8
"""Kernels of the longest chain that is looked for."""


class Chain(Record):
    """Kernels that run one after another on a stream, several times."""

    kernels: tuple[str, ...]
    """Names of the kernels, in order."""
    operators: tuple[str, ...] = ()
    """Operators that the program called for them, in its first run: `aten::conv2d`; one for a row of the same."""
    count: int
    """How often the chain runs, none overlapping another."""
    proximity: float
    """The part of its first kernel's runs that the others follow: 1 where they always do.

    Source: the proximity score of SKIP."""
    saved_launches: int
    """Launches fewer if each chain were one kernel."""
    saved_host_us: float
    """Microseconds in the launching calls of all but the first kernel of each."""
    saved_gap_us: float
    """Microseconds of the device between the kernels of the chains."""
    kernel_us: float
    """Microseconds of the kernels themselves, of which fusing saves what they pass through memory."""


def chains_of(linked: Sequence[Linked], *, most: int = 10) -> tuple[Chain, ...]:
    """Return the chains whose fusing saves most launches.

    A chain within a longer one is left out, unless it runs more often. Kernels of CUDA graphs count: they are
    launched together already, so fusing them saves gaps and no calls.

    Args:
        linked: What ran on the device, with its launches.
        most: How many chains are returned at most.
    """
    streams: dict[tuple[str, str], list[Linked]] = {}
    for one in linked:
        if one.span.kind is Kind.KERNEL:
            streams.setdefault(one.span.place, []).append(one)
    runs = list(streams.values())
    words = [[one.span.name for one in run] for run in runs]
    singles = Counter(name for run in words for name in run)
    repeated: dict[tuple[str, ...], int] = {}
    alive = {(s, i) for s, run in enumerate(words) for i in range(len(run))}
    for length in range(2, LONGEST + 1):
        here = {(s, i): tuple(words[s][i : i + length]) for s, i in alive if i + length <= len(words[s])}
        counts = _apart(here, length)
        now = {chain: n for chain, n in counts.items() if n >= 2}
        for chain, n in now.items():  # the chain one shorter at either end says no more if it runs as often
            for shorter in (chain[1:], chain[:-1]):
                if repeated.get(shorter, 0) <= n:
                    repeated.pop(shorter, None)
        repeated |= now
        alive = {place for place, chain in here.items() if counts[chain] >= 2}
        if not alive:
            break
    kept = [names for names in repeated if not _said_by_another(names, repeated)]
    found = [_chain(names, runs, words, singles[names[0]]) for names in kept]
    ranked = sorted(found, key=lambda c: (-c.saved_launches, -c.saved_gap_us, c.kernels))
    distinct: dict[frozenset[tuple[str, ...]], Chain] = {}
    for best in ranked:  # a loop over kernels is one chain, wherever it is cut
        cuts = frozenset(best.kernels[i:] + best.kernels[:i] for i in range(len(best.kernels)))
        distinct.setdefault(cuts, best)
    return tuple(distinct.values())[:most]


def _apart(here: dict[tuple[int, int], tuple[str, ...]], length: int) -> Counter[tuple[str, ...]]:
    """Count each chain, from left to right, without overlaps with itself."""
    counts: Counter[tuple[str, ...]] = Counter()
    until: dict[tuple[int, tuple[str, ...]], int] = {}
    for (stream, i), chain in sorted(here.items()):
        if i >= until.get((stream, chain), 0):
            counts[chain] += 1
            until[stream, chain] = i + length
    return counts


def _said_by_another(chain: tuple[str, ...], repeated: dict[tuple[str, ...], int]) -> bool:
    """Tell whether a chain is a shorter one over again, or the same kernel in part of a longer row of it."""
    size = len(chain)
    period = next(p for p in range(1, size + 1) if chain[p:] == chain[: size - p])
    if period == 1:
        return (*chain, chain[0]) in repeated
    root = chain[:period]
    saved = repeated.get(root, 0) * (period - 1)
    return period <= size // 2 or (period < size and saved >= repeated[chain] * (size - 1))


def _chain(
    chain: tuple[str, ...], runs: Sequence[Sequence[Linked]], words: Sequence[Sequence[str]], first: int
) -> Chain:
    count, host_us, gap_us, kernel_us = 0, 0.0, 0.0, 0.0
    operators: tuple[str, ...] = ()
    size = len(chain)
    for run, names in zip(runs, words, strict=True):
        at = 0
        while at + size <= len(run):
            if tuple(names[at : at + size]) != chain:
                at += 1
                continue
            ones = run[at : at + size]
            operators = operators or tuple(
                called for called, _ in itertools.groupby(one.called for one in ones)
            )
            count += 1
            host_us += sum(one.launch.duration_us for one in ones[1:] if not one.follows)
            gap_us += sum(max(b.span.start_us - a.span.end_us, 0.0) for a, b in itertools.pairwise(ones))
            kernel_us += sum(one.span.duration_us for one in ones)
            at += size
    return Chain(
        kernels=chain, operators=operators, count=count, proximity=count / first,
        saved_launches=count * (size - 1), saved_host_us=host_us, saved_gap_us=gap_us, kernel_us=kernel_us,
    )  # fmt: skip
