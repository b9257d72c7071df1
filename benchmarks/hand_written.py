"""Kernels by hand for some problems of `peers_cpu`: whether the bound, or the best kernel known so far, is far off.

    taskset -c 0 python -m benchmarks.hand_written [--only pool] [--seconds 0.5] [--out rows.jsonl]

Each writes to the same memory at each call, and is compared with eager before it is timed, by the process's CPU time
on one thread. Its rows have the form of those of `peers_cpu`, terms of the bound included, so `benchmarks.bounds` takes
both files. Kernels of `hand_written.cpp` are for one size each and take no others: they show what is attainable.
"""

import argparse
import json
import statistics
import tempfile
import time
from importlib.resources import files
from pathlib import Path

import torch

from kernelwright.compiler.printers import cpp
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library
from kernelwright.languages.vectors import headers_of
from kernelwright.records import BuildStatus, Candidate, SourceFile

from .bounds import shares
from .peer_problems import PROBLEMS
from .peers_cpu import CORES, alike, attainable

SOURCE = Path(__file__).with_name("hand_written.cpp")
NAMES = (
    "variance of rows", "embedding", "embedding, summed", "swiglu, elementwise", "exponential of a sum", "huber loss",
    "max pool 3x3", "average pool 2x2", "attention, one query", "cumulative sum of columns", "layer norm, in cache",
)  # fmt: skip
"""Problems with a kernel, whose symbol has the same name."""


def symbol_of(problem: str) -> str:
    """Name the kernel of a problem.

    Example:
        >>> symbol_of("attention, one query")
        'attention_one_query'
    """
    return "_".join(problem.replace(",", "").split())


def built() -> Path:
    """Compile all kernels into one library."""
    text = SOURCE.read_text()
    shared = (files(cpp) / "tiles.h").read_text()
    sources = (
        SourceFile(path=SOURCE.name, text=text), SourceFile(path="tiles.h", text=shared), *headers_of(shared),
    )  # fmt: skip
    candidate = Candidate(
        sources=sources, language="cpp", entry=f"{SOURCE.name}:huber_loss", style="destination",
        flags=("-Wno-psabi", "-Wno-uninitialized"),
    )  # fmt: skip
    build = get_language("cpp").build(candidate, deadline_s=900)
    if build.status is not BuildStatus.OK:
        raise SystemExit(f"hand_written.cpp does not build: {build.diagnostics}")
    return Path(str(build.artefact)) / "kernel.so"


def main() -> None:
    """Check and time every kernel, and save the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    library = load_library(built())
    for problem in (p for p in PROBLEMS if p.name in NAMES and options.only in p.name):
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            path = Path(folder) / f"{problem.file_name}.py"
            path.write_text(problem.text("float32"))
            example = problem.example(path)
            right = example.model(*example.inputs)
            out = torch.empty_like(right)
            kernel = library.get_function(symbol_of(problem.name))
            given = [*example.inputs, *example.model.state_dict().values(), out]
            kernel(*given)
            if not alike([out], [right]):
                raise SystemExit(f"{problem.name}: another result than eager's")
            times = list[float]()
            end = time.process_time() + options.seconds
            while time.process_time() < end or len(times) < 9:
                begun = time.process_time()
                kernel(*given)
                times.append(time.process_time() - begun)
            row = {
                "problem": problem.name, "group": problem.group, "dtype": "float32", "threads": 1, "clock": "cpu",
                "cores": CORES, **attainable(path), "variant": "hand", "calls": len(times),
                "least_us": min(times) * 1e6, "median_us": statistics.median(times) * 1e6,
            }  # fmt: skip
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        (share,) = shares([row])
        print(f"{problem.name:28}{row['median_us']:10.0f} us {share.value:6.2f} of the bound", flush=True)


if __name__ == "__main__":
    main()
