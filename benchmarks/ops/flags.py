"""A family's kernels built with another flag against the kernels as they are: seconds to build, and its cases in turn.

    python -m benchmarks.ops.flags FAMILY [--flag=-O2] [--rounds 9] [--seconds 60] [--out rows.jsonl]

A row is one case of the family's own script, timed as there: `kernel` has the flag, and a ratio above 1 says that it is
faster. Both are called past what is remembered of calls. Cases that do not fit the seconds are left out.
"""

import argparse
import importlib
import json
import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.ops._turns import Call, turns
from kernelwright.languages.cpp import LIBRARY, Cpp
from kernelwright.ops._core import op as ops_core
from kernelwright.ops._core import unremembered

DEADLINE_S = 600.0


def entries(kernel: Any, flags: tuple[str, ...]) -> tuple[dict[str, Any], float]:
    """Build a family's kernels with more flags and return them, with the CPU seconds that compilers took."""
    import tvm_ffi

    found, before = {}, _children_s()
    for name in (op.name for op in kernel.ops):
        candidate = kernel.candidate(name)
        build = Cpp().build(
            candidate.model_copy(update={"flags": (*candidate.flags, *flags)}), deadline_s=DEADLINE_S
        )
        if not build.artefact:
            raise SystemExit(f"{name} could not be built with {' '.join(flags)}: {build.diagnostics}")
        found[name] = tvm_ffi.load_module(str(Path(build.artefact) / LIBRARY)).get_function(name)
    return found, _children_s() - before


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(family: str, flag: str, rounds: int, seconds: float) -> Iterator[dict[str, object]]:
    """Yield a row of the builds, which are none where the cache has them, then one of each case."""
    kernel = importlib.import_module(f"kernelwright.ops.{family}").KERNEL
    own, own_s = entries(kernel, ())
    other, other_s = entries(kernel, (flag,))
    yield {"family": family, "flag": flag, "build_cpu_s": round(own_s, 1), "with_flag_s": round(other_s, 1)}

    def called(flagged: bool, call: Call) -> Call:
        def run() -> object:
            for op in kernel.ops:
                op._entry, op._served = (other if flagged else own)[op.name], None
            return call()

        return run

    begun = time.monotonic()
    with unremembered(), mock.patch.object(ops_core, "served_calls", lambda: None):
        for case in importlib.import_module(f"benchmarks.ops.{family}").cases(""):
            if time.monotonic() - begun > seconds:
                return
            both = {
                "kernel": called(True, case.contestants["kernel"]),
                "as it is": called(False, case.contestants["kernel"]),
            }
            yield {
                "family": family,
                "flag": flag,
                **turns(replace(case, contestants=both), rounds, threads=1),
            }


def main() -> None:
    """Print the rows of a family and their geometric mean."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.flags")
    parser.add_argument("family")
    parser.add_argument("--flag", default="-O2")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, help="JSONL file to append rows to")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[float] = []
    for row in rows(given.family, given.flag, given.rounds, given.seconds):
        print(json.dumps(row), flush=True)
        if "ratio" in row:
            found.append(float(str(row["ratio"])))
        if given.out:
            with given.out.open("a") as to:
                to.write(json.dumps(row) + "\n")
    if found:
        print(
            f"{given.family}: {statistics.geometric_mean(found):.3f} of {len(found)}, worst {min(found):.3f}"
        )


if __name__ == "__main__":
    main()
