"""`kernelwright tune`: how a tuner would have done on a recorded space."""

from pathlib import Path

from ._common import Common, Count, print_json, table


def tune(
    *,
    space: Path,
    tuner: str | None = None,
    evaluations: Count = 100,
    seeds: Count = 20,
    common: Common | None = None,
) -> int:
    """Replay a recorded search space: what a tuner finds in so many evaluations, with no device.

    Args:
        space: Table of a space, `.csv` or `.csv.gz`: a column a parameter, then `time_ms`, empty where the
            configuration failed.
        tuner: `gp` (the default), `tpe`, `genetic`, `differential`, `annealing`, `local`, `random`,
            `exhaustive`, or one that a package adds.
        evaluations: Evaluations of each seed; failures count.
        seeds: Seeds from 0; the figures are over all of them.
        common: Flags of every command.
    """
    from ..search.simulation import RecordedSpace, simulate
    from ..search.tuners import DEFAULT_TUNER, make_tuner

    common = common or Common()
    name = tuner or DEFAULT_TUNER
    recorded = RecordedSpace.load(space)
    found = simulate(
        recorded, lambda s, seed: make_tuner(name, s, seed), evaluations=evaluations, seeds=seeds
    )
    fraction = {"median": found.quantile(0.5), "low": found.quantile(0.1), "high": found.quantile(0.9)}
    if common.json:
        print_json(
            "result", space=recorded.name, tuner=name, fraction_of_optimum={**fraction},
            configurations=len(recorded.times_us), evaluations=evaluations, seeds=seeds,
            best_ms=recorded.best_us / 1e3, ask_ms=found.ask_s * 1e3,
        )  # fmt: skip
        return 0
    row = {
        "space": recorded.name,
        "configurations": str(len(recorded.times_us)),
        "tuner": name,
        "evaluations": str(evaluations),
        "fraction of optimum": f"{fraction['median']:.3f}",
        "10 % to 90 % of seeds": f"{fraction['low']:.3f} to {fraction['high']:.3f}",
        "ms to decide": f"{found.ask_s * 1e3:.1f}",
    }
    table([row], empty="")
    return 0
