"""How long the kernels of ops take to compile: each library by itself, from an empty cache.

    python -m benchmarks.ops.builds [FAMILY ...] [--commit REVISION] [--out rows.jsonl]

A row is one kernel, or one of its parts: the compiler's CPU seconds, which other work on the machine disturbs least,
those on the clock, and the library's bytes. What kernels share, precompiled headers, is made before the first row. With
a commit its sources are built, each kernel whole, by the flags of the family as it is.
"""

import argparse
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ops.flags import _children_s, package_at, sources
from kernelwright import ops
from kernelwright.config import Settings
from kernelwright.languages.cpp import LIBRARY, Cpp
from kernelwright.records import Candidate

DEADLINE_S = 600.0


def rows(families: list[str], commit: str) -> Iterator[dict[str, object]]:
    """Build all kernels of these families, one after the other."""
    with tempfile.TemporaryDirectory() as folder, package_at(commit) as package:
        os.environ["KERNELWRIGHT_CACHE"] = folder
        language = Cpp(Settings.from_environment())
        for family in families:
            kernel = ops.family(family).KERNEL
            wanted = [(symbol, part) for symbol in kernel.symbols for part in kernel.parts(symbol)]
            if package is not None:
                wanted = [(symbol, "") for symbol in kernel.symbols]
            for number, (symbol, part) in enumerate(wanted):
                candidate = kernel.candidate(symbol, part)
                if package is not None:
                    candidate = candidate.model_copy(update={"sources": sources(kernel, package)})
                if number == 0:
                    language.build(_of_headers(candidate))
                begun, used = time.perf_counter(), _children_s()
                build = language.build(candidate, deadline_s=DEADLINE_S)
                took, cpu = time.perf_counter() - begun, _children_s() - used
                size = (Path(build.artefact) / LIBRARY).stat().st_size if build.artefact else 0
                what = {"family": family, "symbol": symbol, "part": part} | (
                    {"commit": commit} if commit else {}
                )
                yield {
                    **what,
                    "cpu_s": round(cpu, 2),
                    "wall_s": round(took, 2),
                    "bytes": size,
                    "status": build.status,
                }


def _of_headers(candidate: Candidate) -> Candidate:
    """Return a kernel that does nothing but include what this one begins with, which makes its precompiled header."""
    main, *headers = candidate.sources
    first = next(line for line in main.text.splitlines() if line.startswith('#include "'))
    text = f'{first}\n#include "kernelwright.h"\nKW_KERNEL(nothing) {{}}\n'
    flags = tuple(re.sub(r"^-DKW_WITH_\w+", "-DKW_WITH_nothing", flag) for flag in candidate.flags)
    return candidate.model_copy(
        update={
            "sources": (main.model_copy(update={"text": text}), *headers),
            "entry": f"{main.path}:nothing",
            "flags": flags,
        }
    )


def main() -> None:
    """Print the rows, and what they sum to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.builds")
    parser.add_argument("families", nargs="*", default=ops.families())
    parser.add_argument("--commit", default="")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: list[float] = []
    for row in rows(list(given.families), given.commit):
        print(json.dumps(row), flush=True)
        found.append(float(str(row["cpu_s"])))
        if given.out:
            with given.out.open("a") as to:
                to.write(json.dumps(row) + "\n")
    print(f"{len(found)} libraries, {sum(found):.1f} CPU s, {max(found, default=0):.1f} the longest")


if __name__ == "__main__":
    main()
