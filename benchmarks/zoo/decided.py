"""The chance of a decision within the minutes against what became of recorded runs, replayed without searching again.

    python -m benchmarks.zoo.decided ROWS.jsonl ... [--others ROWS.jsonl ...]

ROWS are those of `python -m benchmarks.zoo`: each tells how long the plan took, what minutes the run had (by its command), and
whether the model was decided on. Printed are how many times as long as its plan a decision takes in the median, how sharply
the chance rises, and Brier scores (the mean squared difference of the chance and what happened, 0 at best): of each model
by the chance that the other rows give (leave one out), of the constant 0.95, of the rows' own mean, and of today's
constants on other rows, which nothing was fitted on.
"""

import argparse
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from kernelwright.models._decided import PLANS, chance_of

_MINUTES = re.compile(r"--minutes (\d+(?:\.\d+)?)")
_DECIDED = frozenset({"improved", "equal", "slower"})
_SLOPES = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
_WITH_IMPORTS = 1.35
"""How many times as long as the plan its command takes, which imports torch too: processor seconds of clip_text and regnet.
Rows that tell the plan's own seconds need no such guess."""
_PENALTY = 0.02
"""What a unit of the slope costs in log-likelihood, so that rows that can be parted do not make it infinite."""


class Run(NamedTuple):
    """One recorded run."""

    model: str
    """The model."""
    plans: float
    """Seconds that it had after the plan, by those that the plan took."""
    decided: bool
    """Whether it was decided on."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the fit and the scores."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--others", type=Path, nargs="*", default=[])
    asked = parser.parse_args(argv)
    runs = [run for path in asked.rows for run in runs_of(path.read_text())]
    median, slope = fitted(runs)
    mean = fmean(run.decided for run in runs)
    print(f"{len(runs)} runs, {sum(run.decided for run in runs)} decided: {median:.1f} plans, slope {slope}")
    left_out = {run: fitted([other for other in runs if other is not run]) for run in runs}
    print(
        f"Brier score, each by the others {score(runs, lambda run: chance(run, *left_out[run])):.3f}; ",
        end="",
    )
    print(f"constant 0.95 {score(runs, lambda _: 0.95):.3f}; their mean {score(runs, lambda _: mean):.3f}")
    for path in asked.others:
        others = runs_of(path.read_text())
        mine, constant = score(others, lambda run: chance_of(run.plans, PLANS)), score(others, lambda _: 0.95)
        print(
            f"{path.stem}: {len(others)} runs, {sum(r.decided for r in others)} decided; Brier score {mine:.3f}, ",
            end="",
        )
        print(f"constant 0.95 {constant:.3f}")
    return 0


def runs_of(text: str) -> list[Run]:
    """Return the runs of a file of rows; those that tell no minutes are left out."""
    found = []
    for row in map(json.loads, text.splitlines()):
        told = _MINUTES.search(row.get("command", ""))
        minutes = float(told[1]) if told else row.get("minutes")
        if minutes and row.get("plan_s") and row.get("decision"):
            planned_s = row.get("planned_s") or row["plan_s"] / _WITH_IMPORTS
            plans = (60 * minutes - row["plan_s"]) / planned_s
            found.append(Run(row["model"], plans, row["decision"] in _DECIDED))
    return found


def chance(run: Run, median: float, slope: float) -> float:
    """Return the chance of a decision by a fit.

    Example:
        >>> chance(Run("vit", 10.0, True), 10.0, 3.5)
        0.5
    """
    return float(1.0 / (1.0 + (median / run.plans) ** slope))


def fitted(runs: Sequence[Run]) -> tuple[float, float]:
    """Return the most likely median, in plans, and slope."""

    def likely(fit: tuple[float, float]) -> float:
        each = ((chance(run, *fit), run.decided) for run in runs)
        return sum(math.log(max(c if d else 1.0 - c, 1e-12)) for c, d in each) - _PENALTY * fit[1]

    medians = [math.exp(step / 100) for step in range(150, 400, 2)]
    return max(((median, slope) for median in medians for slope in _SLOPES), key=likely)


def score(runs: Sequence[Run], said: Callable[[Run], float]) -> float:
    """Return the Brier score of what is said of each run."""
    return fmean((said(run) - run.decided) ** 2 for run in runs)


if __name__ == "__main__":
    raise SystemExit(main())
