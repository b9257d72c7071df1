"""Forms of a product in the schedule engine against torch, in one process and unverified.

    python -m benchmarks.forms [--only softmax] [--rounds 15] [--threads 1] [--out rows.jsonl]

A row is one schedule of one problem: the least time of so many calls of the processor, in turn with torch's, what the
estimate says, and the largest error relative to the largest result. It says which form the estimate should prefer; what
is faster says the judge.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, State, taken
from kernelwright.compiler.graph import Graph, from_captured, interpret
from kernelwright.compiler.policy import estimate
from kernelwright.compiler.printers import cpp
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

Function = Callable[..., torch.Tensor]
CASES: dict[str, tuple[Function, list[tuple[int, ...]], list[str]]] = {
    "conv 64 of 56": (
        lambda x, w: F.conv2d(x, w, padding=1), [(1, 64, 56, 56), (64, 64, 3, 3)], ["panels", "direct", "winograd"],
    ),
    "conv 128 of 28": (
        lambda x, w: F.conv2d(x, w, padding=1), [(1, 128, 28, 28), (128, 128, 3, 3)], ["panels", "direct", "winograd"],
    ),
    "softmax of a product": (
        lambda x, w: torch.softmax(x @ w, -1), [(4096, 64), (64, 1024)], ["panels", "panels strip"],
    ),
    "extremum of a product": (
        lambda x, w: torch.relu(x @ w).amax(-1), [(8192, 32), (32, 1024)], ["panels", "panels strip"],
    ),
    "product of 256": (lambda x, w: x @ w, [(256, 256), (256, 512)], ["panels"]),
    "product of 512": (lambda x, w: x @ w, [(512, 512), (512, 512)], ["panels"]),
    "product of 1024": (lambda x, w: x @ w, [(1024, 1024), (1024, 1024)], ["panels"]),
    "product, right turned": (lambda x, w: x @ w.t(), [(1024, 1024), (1024, 1024)], ["panels"]),
    "product, left turned": (lambda x, w: x.t() @ w, [(1024, 1024), (1024, 1024)], ["panels"]),
    "product, both turned": (lambda x, w: x.t() @ w.t(), [(1024, 1024), (1024, 1024)], ["panels"]),
    "product and GELU": (lambda x, w: F.gelu(x @ w), [(2048, 768), (768, 2048)], ["panels"]),
}  # fmt: skip
"""A function, the shapes of its arguments, and the actions of each schedule, every one at its first site."""


def read(function: Function, shapes: Sequence[tuple[int, ...]]) -> Graph:
    """Return the graph of a function of float32 tensors."""
    specs = tuple(TensorSpec(name=f"x{i}", shape=s, dtype="float32") for i, s in enumerate(shapes))
    workload = Workload(name="w", arguments=specs)
    return from_captured(record_function(function, workload, [torch.ones(s) for s in shapes]), workload)


def states(graph: Graph, schedules: Sequence[str]) -> Iterator[State]:
    """Yield the state that every schedule leads to."""
    by_name = {action.name: action for action in ACTIONS}
    for names in schedules:
        state = State(graph, graph)
        for name in names.split():
            state = taken(state, by_name[name], next(iter(by_name[name].sites(state))))
        yield state


def least_us(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least time of the processor of each call in microseconds, all calls in turn."""
    least = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begun = time.process_time_ns()
            call()
            least[i] = min(least[i], (time.process_time_ns() - begun) / 1e3)
    return least


def kernel_of(state: State) -> Callable[..., object]:
    """Build and load the kernel of a state."""
    assert state.program is not None
    build = get_language("cpp").build(cpp.render(state.program, state.graph), deadline_s=400)
    found: Callable[..., object] = load_library(Path(str(build.artefact)) / "kernel.so").get_function(
        state.program.name
    )
    return found


def main() -> None:
    """Time every case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file that rows are appended to")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name, (function, shapes, schedules) in CASES.items():
        if options.only not in name:
            continue
        graph, inputs = read(function, shapes), [torch.randn(s) for s in shapes]
        (wanted,) = interpret(graph, inputs)
        found = list(states(graph, schedules))
        outputs = [torch.empty(tuple(wanted.shape)) for _ in found]
        own = [partial(kernel_of(s), *inputs, y) for s, y in zip(found, outputs, strict=True)]
        torch_us, *times = least_us([partial(function, *inputs), *own], options.rounds)
        print(f"{name:24} {'torch':28} {torch_us:9.0f} us", flush=True)
        for state, output, us in zip(found, outputs, times, strict=True):
            error = float((output - wanted).abs().max() / wanted.abs().max())
            guess = estimate(state.program).time_us if state.program else 0.0
            print(
                f"{'':24} {state.text[:28]:28} {us:9.0f} us, estimate {guess:6.0f}, error {error:.1e}",
                flush=True,
            )
            if options.out:
                row = {
                    "case": name,
                    "schedule": state.text,
                    "own_us": round(us, 1),
                    "torch_us": round(torch_us, 1),
                }
                row |= {"ratio": round(torch_us / us, 3), "threads": options.threads, "error": error}
                with options.out.open("a") as rows:
                    rows.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
