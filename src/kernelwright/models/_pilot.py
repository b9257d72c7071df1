"""Model's task → what one program for all of it will save, forecast from its first programs before it is searched.

The first programs of the schedule engine are built with their defaults and called in turn with the native model, in a
process of their own, in processor time of one thread; the search finds them built. Nothing is verified.

Covers: programs that crash or hang.
Does not cover: busy machines, on which there is no pilot; what the search gains beyond its first programs, apart from
what it gained in other models.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ..compiler import schedules
from ..config import without_secrets
from ..languages import get_language
from ..languages.prepared import prepared
from ..records import Task
from ..system.waiting import got_share
from ..tasks import Problem
from ._in_turns import in_turns

AGAINST_PILOT = (0.272, 2.261)
"""How many times the pilot's share of eager torch's time a judged program's is: constant, and slope by the share up to
`SLOW`, below which a search still gains much and above which almost nothing; from 55 models
(`python -m benchmarks.zoo.forecast --look`). A ratio promises nothing odd for shares that no model of them had."""
SLOW = 0.35
_OFF = (-0.046, 0.078)
"""How far a tenth of the models were below and above that, each forecast from the others."""
_PROGRAMS, _NEAR, _ROUNDS = 3, 1e-3, 9
_LEAST_SHARE = 0.03
_LEAST_GOT = 0.5
"""Part of a processor that this process must get for a pilot to be worth its time."""


def forecast_of(share: float) -> tuple[float, float, float]:
    """Return how many times as fast as eager torch a model is expected to be: low, expected, high.

    Args:
        share: Part of eager torch's time that the fastest of the first programs takes.

    Example:
        >>> tuple(round(times, 2) for times in forecast_of(0.4))
        (1.99, 2.35, 2.64)
    """
    constant, slope = AGAINST_PILOT
    middle = share * (constant + slope * min(share, SLOW))
    low, expected, high = (
        1.0 / min(max(one, _LEAST_SHARE), 1.0) for one in (middle + _OFF[1], middle, middle + _OFF[0])
    )
    return low, expected, high


@dataclass(frozen=True)
class Pilot:
    """What was seen of a model's first programs."""

    share: float
    """Part of eager torch's time that the fastest takes."""
    programs: tuple[str, ...]
    """Names of those that answered right, the fastest first."""


def piloted(task: Task, seconds: float) -> Pilot | None:
    """Time the first programs of a model.

    Returns:
        What was seen in these seconds. None where none answered right in them, and where this process gets too little
        of a processor, so that the search needs them.
    """
    if got_share() < _LEAST_GOT:
        return None
    command = [sys.executable, "-P", "-m", "kernelwright.models._pilot", str(seconds)]
    try:
        told: bytes | None = subprocess.run(
            command,
            input=task.to_json().encode(),
            capture_output=True,
            timeout=seconds,
            env=without_secrets(),
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as late:
        told = late.stdout
    ended = (told or b"").rpartition(b"\n")[0].splitlines()
    seen = [json.loads(line) for line in ended if line.startswith(b'{"share"')]
    seen.sort(key=lambda one: one["share"])
    return Pilot(seen[0]["share"], tuple(one["program"] for one in seen)) if seen else None


def shares_of(task: Task, seconds: float) -> Iterator[tuple[str, float]]:
    """Time the first programs in this process; yield the name and the share of each that answers right.

    The first one is begun, and each after it that ends within the seconds if it takes as long as the longest before it.
    """
    longest_s, end = 0.0, time.monotonic() + seconds
    torch.set_num_threads(1)
    problem, workload, language = Problem(task), task.workloads[0], get_language("cpp")
    inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
    reference, given = problem.reference(workload, state), [*inputs, *state.values()]
    with torch.no_grad():
        wanted = _first(reference(*inputs))
        for schedule in islice(schedules(problem, ("cpp",)), _PROGRAMS):
            begun = time.monotonic()
            if longest_s and begun + longest_s > end:
                return
            candidate = schedule.render(schedule.default())
            build = language.build(candidate)
            if build.artefact is None:
                continue
            loaded = language.load(candidate, Path(build.artefact), workload.outputs)
            kernel: Any = prepared(loaded, tuple(spec.name for spec in workload.state)) or loaded
            if float((_first(kernel(*given)) - wanted).abs().max()) <= _NEAR * float(wanted.abs().max()):
                ways = {"eager": partial(reference, *inputs), "program": partial(kernel, *given)}
                times = in_turns(ways, 0.0, least=_ROUNDS, clock=time.process_time)
                yield schedule.name, median(times["program"]) / median(times["eager"])
            longest_s = max(longest_s, time.monotonic() - begun)


def _first(result: Any) -> torch.Tensor:
    found: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
    return found


if __name__ == "__main__":
    for program, share in shares_of(Task.from_json(sys.stdin.read()), float(sys.argv[1])):
        print(json.dumps({"share": share, "program": program}), flush=True)
