"""Timed evaluation → how many times as fast as eager torch it is."""

from pathlib import Path
from statistics import median

from ..records import Evaluation
from ..store import Store


def over_eager(store: Path | str | None, run: str, candidate: str) -> float | None:
    """Return the median ratio of eager's time to the patched model's in the blocks of a judgement."""
    with Store(store) as kept:
        found = [e for e in kept.evaluations(run) if e.candidate.key == candidate]
    return ratio_to_eager(found[0]) if found else None


def ratio_to_eager(found: Evaluation) -> float | None:
    """Return the median ratio of eager's time to the candidate's."""
    blocks = found.timing.blocks if found.timing else ()
    ratios = [b.times_us["eager"] / b.times_us["candidate"] for b in blocks
              if not b.repeated and {"eager", "candidate"} <= b.times_us.keys()]  # fmt: skip
    return median(ratios) if ratios else None
