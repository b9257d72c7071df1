"""Where the CPU seconds of a verification in full go, by check.

    python -m benchmarks.verify_cost FILE [--max-elements 4e6] [--memory usual] [--out rows.jsonl]

Of a task's first schedule in C++, after one screening. Seconds are those of the judge's process and of its workers
while they run, each part without the parts within it; what a worker did before it was ended is not in `rest`.
`--memory usual` gives memory back when it is freed, as it was before the judge kept it.
"""

import argparse
import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil

from kernelwright.compiler import schedules
from kernelwright.config import Settings
from kernelwright.languages import get_language
from kernelwright.sandbox import Pool
from kernelwright.system.kept_memory import kept_memory
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle, _verify, verify
from kernelwright.verify.checks import LAST, PROBES, SWEEPS

_PROCESS = psutil.Process()


def cpu_s() -> float:
    """Return the CPU seconds of this process and of all below it that are alive."""
    total = time.process_time()
    for child in _PROCESS.children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.Error:
            continue
        total += float(used.user + used.system)
    return total


class Parts:
    """CPU seconds by part, each without the parts within it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._within: list[float] = []

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call whose seconds are counted."""

        @functools.wraps(call)
        def counted(*args: Any, **more: Any) -> Any:
            before = cpu_s()
            self._within.append(0.0)
            try:
                return call(*args, **more)
            finally:
                spent, within = cpu_s() - before, self._within.pop()
                if self._within:
                    self._within[-1] += spent
                self.seconds[name] += max(0.0, spent - within)

        return counted


def measured(file: Path, max_elements: int | None, *, keep: bool) -> dict[str, Any]:
    """Verify a task's first schedule in full and return a row."""
    problem, parts = Problem(load_task(file, max_elements=max_elements)), Parts()
    schedule = next(iter(schedules(problem, ("cpp",))))
    candidate = schedule.render(schedule.default())
    build = get_language("cpp").build(candidate)
    with Pool(Settings.from_environment()) as pool, kept_memory() if keep else nullcontext():
        oracle = Oracle(problem)
        verify(problem, candidate, build, pool=pool, depth="screen", oracle=oracle)
        for probe in {id(p): p for p in (*PROBES, *LAST, *SWEEPS)}.values():
            setattr(probe, "probe", parts.timed(probe.name, probe.probe))  # noqa: B010 - mypy sees a method
        setattr(_verify, "observe", parts.timed("calls of each workload", vars(_verify)["observe"]))  # noqa: B010 - the same
        for name in ("make", "follow"):
            setattr(Oracle, name, parts.timed(f"expected values, {name}", getattr(Oracle, name)))
        verdict = parts.timed("rest", verify)(
            problem, candidate, build, pool=pool, depth="full", oracle=Oracle(problem), deadline_s=600.0
        )
    found = {name: round(s, 2) for name, s in sorted(parts.seconds.items(), key=lambda item: -item[1])}
    return {
        "problem": file.stem, "schedule": schedule.name, "verdict": str(verdict.status), "kept": keep,
        "cpu_s": round(sum(parts.seconds.values()), 2), "parts_s": found,
    }  # fmt: skip


def main() -> None:
    """Print the parts and write the row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--max-elements", type=float)
    parser.add_argument("--memory", choices=("kept", "usual"), default="kept")
    parser.add_argument("--out", type=Path, help="JSON lines file to add the row to")
    given = parser.parse_args()
    most = int(given.max_elements) if given.max_elements else None
    row = measured(given.file, most, keep=given.memory == "kept")
    print(f"{row['problem']}: {row['verdict']}, {row['cpu_s']} CPU seconds")
    for name, seconds in row["parts_s"].items():
        print(f"{seconds:8.2f}  {name}")
    if given.out:
        with given.out.open("a") as rows:
            rows.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
