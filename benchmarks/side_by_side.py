"""Own kernels against torch, OpenVINO and ONNX Runtime in one process, unverified: what the benchmarks of kinds share.

A benchmark gives its cases; this times their variants in turns, in an order that changes every round, prints every
variant's median time and its ratio to the own kernel's (median over rounds), and saves the rows. `--clock cpu` counts
the process's seconds, and not the wall's: with one thread that is what a machine busy with other work leaves to
compare. Torch and `own` allocate their results, as a user's calls do; `own-kept`, OpenVINO and ONNX Runtime write to
the same memory each time. The latter two run in a process of their own each, which times its calls on the same clock:
OpenVINO 2026.4 corrupted the heap of a process that had run code of TorchInductor. What is faster says the judge.
"""

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.forms import read
from benchmarks.gemm import Call
from kernelwright.compiler.actions import offered
from kernelwright.compiler.policy import leaves
from kernelwright.compiler.printers import cpp
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library

Function = Callable[..., torch.Tensor]
Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {"cpu": time.process_time, "wall": time.perf_counter}
PEERS = ("openvino", "onnxruntime")


@dataclass(frozen=True)
class Case:
    """What is computed, in which ways, on which tensors."""

    name: str
    function: Function
    """As a user writes it: what eager and torch.compile run, and what the own kernel is derived from."""
    tensors: tuple[torch.Tensor, ...]
    others: Mapping[str, Function]
    """Further ways of torch to compute the same, by name."""
    model: Callable[[], bytes] | None = None
    """The same as an ONNX model of the inputs `x0`, `x1` ... and the result `y`."""
    bound: float = 1e-4
    """Largest difference to the eager result, relative to the largest element."""


def own(case: Case, most: int, seconds: float = 0.3) -> tuple[str, Call, Call]:
    """Build the first programs of the policy, and return the steps of the fastest and its calls.

    The first call allocates its result, the second writes to the same memory each time.
    """
    graph = read(case.function, [tuple(x.shape) for x in case.tensors])
    found: list[tuple[float, str, Any]] = []
    own_programs = (
        leaf
        for leaf in leaves(graph, offered(cpp.FORMS))
        if leaf.state.program and not leaf.state.program.natives
    )
    for leaf in islice(own_programs, most):
        program = leaf.state.program
        assert program is not None
        candidate = cpp.render(program, leaf.state.graph)
        build = get_language("cpp").build(candidate, deadline_s=400)
        kernel: Any = load_library(Path(f"{build.artefact}/kernel.so")).get_function(program.name)
        call = _called(kernel, case)
        call()
        times = list[float]()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            begun = time.process_time()
            call()
            times.append(time.process_time() - begun)
        found.append((min(times), leaf.state.text or "fused", kernel))
    if not found:
        raise SystemExit(f"{case.name}: the policy has no program without native operations")
    _, steps, kernel = min(found, key=lambda f: f[0])
    return steps, _called(kernel, case), _called(kernel, case, kept=True)


def _called(kernel: Any, case: Case, *, kept: bool = False) -> Call:
    """Return a call that allocates its result, as torch's do, or keeps it, as peers do."""
    like = case.function(*case.tensors)

    def call() -> torch.Tensor:
        out = like if kept else torch.empty_like(like)
        kernel(*case.tensors, out)
        return out

    return call


class Here:
    """A call in this process."""

    def __init__(self, call: Call, clock: str) -> None:
        self.call, self._clock = call, CLOCKS[clock]

    def seconds(self) -> float:
        """Run once."""
        begun = self._clock()
        self.call()
        return self._clock() - begun

    def result(self) -> torch.Tensor:
        """Run once, and return the result."""
        found = self.call()
        assert isinstance(found, torch.Tensor)
        return found

    def close(self) -> None:
        """Nothing is held."""


class Apart:
    """A call of a peer, in a process of its own."""

    def __init__(self, peer: str, case: Case, threads: int, clock: str) -> None:
        assert case.model is not None
        context = multiprocessing.get_context("spawn")
        self._pipe, end = context.Pipe()
        inputs = {f"x{i}": x.numpy() for i, x in enumerate(case.tensors)}
        work = (peer, case.model(), inputs, threads, clock, end)
        self._process = context.Process(target=_serve, args=work, daemon=True)
        self._process.start()

    def seconds(self) -> float:
        """Run once."""
        return float(self._asked("seconds"))

    def result(self) -> torch.Tensor:
        """Run once, and return the result."""
        return torch.from_numpy(self._asked("result"))

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()

    def _asked(self, what: str) -> Any:
        self._pipe.send(what)
        if not self._pipe.poll(120):
            raise SystemExit("a peer did not answer for two minutes")
        return self._pipe.recv()


def _serve(peer: str, model: bytes, inputs: dict[str, Any], threads: int, clock: str, pipe: Any) -> None:
    """Answer what is asked of a peer."""
    with contextlib.suppress(EOFError):
        begin = {"openvino": _openvino, "onnxruntime": _onnxruntime}[peer]
        call, result, now = *begin(model, inputs, threads), CLOCKS[clock]
        while what := pipe.recv():
            begun = now()
            call()
            pipe.send(now() - begun if what == "seconds" else result())


def _openvino(model: bytes, inputs: dict[str, Any], threads: int) -> tuple[Call, Call]:
    import openvino as ov

    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
    }  # fmt: skip
    core = ov.Core()
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    for name, x in inputs.items():
        request.set_tensor(name, ov.Tensor(x, shared_memory=True))
    return lambda: request.infer(), lambda: request.get_output_tensor().data.copy()


def _onnxruntime(model: bytes, inputs: dict[str, Any], threads: int) -> tuple[Call, Call]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, x in inputs.items():
        binding.bind_cpu_input(name, x)
    binding.bind_output("y", "cpu")
    return lambda: session.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0]


def variants(case: Case, options: argparse.Namespace) -> tuple[str, dict[str, Here | Apart]]:
    """Return the steps of the own kernel and what is timed, by name."""
    torch._dynamo.reset()
    compiled = torch.compile(case.function, dynamic=False)
    steps, kernel, kept = own(case, options.programs)
    calls: dict[str, Call] = {
        "own": kernel,
        "own-kept": kept,
        "eager": lambda: case.function(*case.tensors),
        "compile": lambda: compiled(*case.tensors),
        **{name: (lambda f=f: f(*case.tensors)) for name, f in case.others.items()},  # type: ignore[misc]
    }
    found: dict[str, Here | Apart] = {name: Here(call, options.clock) for name, call in calls.items()}
    for name in PEERS if case.model and importlib.util.find_spec("onnx") else ():
        if importlib.util.find_spec(name):
            found[name] = Apart(name, case, options.threads, options.clock)
    return steps, found


def checked(case: Case, found: Mapping[str, Here | Apart]) -> None:
    """Raise where a variant's result is another than eager's."""
    wanted = found["eager"].result()
    for name, variant in found.items():
        error = (variant.result() - wanted).abs().max() / wanted.abs().max()
        if not error < case.bound:
            raise SystemExit(f"{name} of {case.name} is off by {error:.3g} of the largest element")


def timed(found: Mapping[str, Here | Apart], seconds: float) -> dict[str, list[float]]:
    """Time all in turns, for so many seconds of the wall and five rounds at least."""
    times: dict[str, list[float]] = {name: [] for name in found}
    order, end = list(found), time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["own"]) < 5:
        random.shuffle(order)
        for name in order:
            times[name].append(found[name].seconds())
    return times


def rows(cases: Iterable[Case], options: argparse.Namespace) -> Iterable[dict[str, object]]:
    """Yield a row for each case and variant."""
    for case in cases:
        steps, found = variants(case, options)
        checked(case, found)
        taken = timed(found, options.seconds)
        for variant in found.values():
            variant.close()
        for name, times in taken.items():
            ratios = [t / mine for t, mine in zip(times, taken["own"], strict=True)]
            yield {
                "case": case.name, "variant": name, "threads": options.threads, "clock": options.clock,
                "calls": len(times), "least_us": min(times) * 1e6, "median_us": statistics.median(times) * 1e6,
                "of_own": statistics.median(ratios), "steps": steps, "torch": torch.__version__,
            }  # fmt: skip


def main(
    cases: Callable[[argparse.Namespace], Iterable[Case]], description: str | None, programs: int
) -> None:
    """Time every case, print each variant next to the own kernel, and save the rows."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument(
        "--programs", type=int, default=programs, help="programs of the policy, of which the best"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in ("openvino", "onnxruntime", "onnx"):
        if not importlib.util.find_spec(name):
            print(f"{name} is not installed: its variant is left out", file=sys.stderr)
    with torch.inference_mode():
        for row in rows(cases(options), options):
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(
                f"{row['case']:44} {row['variant']:12} {row['median_us']:11.0f} us {row['of_own']:6.2f}"
                + (f"  {row['steps']}" if row["variant"] == "own" else ""),
                flush=True,
            )


__all__ = ["Case", "main"]
