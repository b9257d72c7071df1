"""`kernelwright tune`: how a tuner would have done on a recorded space."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ..errors import InputError
from ._common import Common, Count, print_json, table

if TYPE_CHECKING:
    from ..records import Space
    from ..search.replay.simulation import RecordedSpace
    from ..search.tuners import Observation, Tuner


def tune(
    *,
    space: Path,
    tuner: str | None = None,
    evaluations: Count = 100,
    seeds: Count = 20,
    first_seed: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    warm_start: Path | None = None,
    common: Common | None = None,
) -> int:
    """Replay a recorded search space: what a tuner finds in a number of evaluations, without a device.

    Args:
        space: Table of a space, `.csv` or `.csv.gz`: one column per parameter, then `time_ms`, empty if the
            configuration failed.
        tuner: `gp` (the default), `tpe`, `genetic`, `differential`, `annealing`, `local`, `random`,
            `exhaustive`, or one that a package adds.
        evaluations: Evaluations of each seed; failures count.
        seeds: How many seeds; the figures are over all of them.
        first_seed: The first seed, 0 by default.
        warm_start: Table of the same parameters on another shape or device or in another run, known to the tuner in
            advance; it may be incomplete.
        common: Flags of every command.
    """
    from ..search.replay.simulation import RecordedSpace, simulate
    from ..search.tuners import DEFAULT_TUNER, make_tuner

    common = common or Common()
    name = tuner or DEFAULT_TUNER
    recorded = RecordedSpace.load(space)
    known = _observations(warm_start, recorded) if warm_start else ()

    def make(of: "Space", seed: int) -> "Tuner":
        made = make_tuner(name, of, seed)
        if known:
            made.warm_start(known)
        return made

    found = simulate(recorded, make, evaluations=evaluations, seeds=seeds, first_seed=first_seed)
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


def _observations(path: Path, recorded: "RecordedSpace") -> "tuple[Observation, ...]":
    """Read the warm-start observations, with the same parameters as the space.

    Raises:
        InputError: the table has other parameters.
    """
    from ..search.replay.simulation import RecordedSpace

    other = RecordedSpace.load(path)
    here, there = ([p.name for p in r.space.parameters] for r in (recorded, other))
    if sorted(here) != sorted(there):
        raise InputError(
            f"{path} has the parameters {', '.join(there)}; expected those of {recorded.name}: {', '.join(here)}"
        )
    return other.observations
