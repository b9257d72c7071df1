"""What every tuner finds on recorded spaces in so many evaluations, and how long it takes to decide.

    python -m benchmarks.tuners [--spaces DIR] [--evaluations 100] [--seeds 20] [--first-seed 0] [--tuners gp,random]

DIR holds tables as `kernelwright tune` reads them; without it the spaces that come with the package are
used. The figures are the median over seeds of the optimum's time over the best time found, with the 10 %
and 90 % quantiles, the lowest median of any 20 seeds in a row, the share of the seeds that found the optimum, and the
mean CPU milliseconds of `ask` and `tell` together. What was chosen on some seeds is to be checked on others.
`optuna-gp` among the names is Optuna's Gaussian process in the place of ours (docs/decisions/0008):
slow, so only by name.
"""

import argparse
from functools import partial
from pathlib import Path

from kernelwright.search.replay.simulation import RecordedSpace, simulate
from kernelwright.search.tuners import make_tuner, tuner_names
from kernelwright.search.tuners.tpe import TPE
from kernelwright.testing import recorded_space, recorded_space_names


class OptunaGP(TPE):
    """Optuna's Gaussian process, told of failures and of what is not allowed as TPE is."""

    def _sampler(self, seed):
        return self._optuna.samplers.GPSampler(seed=seed, n_startup_trials=10)


def spaces_of(folder: Path | None) -> list[RecordedSpace]:
    """Load the tables of a folder, or the spaces that come with the package."""
    if folder is None:
        return [recorded_space(name) for name in recorded_space_names()]
    return [RecordedSpace.load(path) for path in sorted(folder.glob("*.csv*"))]


def main() -> None:
    """Print the table, a row as soon as it is known."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spaces", type=Path)
    parser.add_argument("--evaluations", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tuners", default=",".join(tuner_names()))
    options = parser.parse_args()
    print(
        f"{'space':24} {'tuner':14} {'median':>7} {'10 %':>7} {'90 %':>7} {'any 20':>7} {'found':>7} {'ms':>7}"
    )
    for recorded in spaces_of(options.spaces):
        for name in options.tuners.split(","):
            make = OptunaGP if name == "optuna-gp" else partial(make_tuner, name)
            found = simulate(
                recorded,
                make,
                evaluations=options.evaluations,
                seeds=options.seeds,
                first_seed=options.first_seed,
            )
            optima = sum(fraction == 1 for fraction in found.fractions) / options.seeds
            figures = (*(found.quantile(share) for share in (0.5, 0.1, 0.9)), found.worst_median(20), optima)
            row = " ".join(f"{figure:7.3f}" for figure in figures)
            print(f"{recorded.name:24} {name:14} {row} {found.ask_s * 1e3:7.1f}", flush=True)


if __name__ == "__main__":
    main()
