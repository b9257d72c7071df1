"""Products of weights in panels against torch, OpenVINO and ONNX Runtime, in one process and unverified.

    python -m benchmarks.gemm [--only gelu] [--rows 1,64,256] [--sizes 768x2048] [--threads 1] [--seconds 2]
                              [--clock cpu] [--out rows.jsonl]

A row is one product on one variant: least and median time of interleaved calls, in an order that changes every round.
OpenVINO and ONNX Runtime run the same ONNX model in float32 and are left out where they are not installed
(`pip install openvino onnxruntime onnx`), which is said. They write their results to the same memory at each call, and
so does `own-kept`; torch and `own` allocate them, as a user's calls do. `--clock cpu` counts the process's seconds, and
not the wall's: with one thread that is what a machine busy with other work leaves to compare. What is faster says the
judge.
"""

import argparse
import dataclasses
import importlib.util
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.forms import read
from kernelwright.compiler.actions import ACTIONS, State, taken
from kernelwright.compiler.graph import Graph, Weight
from kernelwright.compiler.printers import cpp
from kernelwright.languages import get_language

Call = Callable[[], object]
ROWS = (1, 4, 16, 64, 256, 1024, 2048)
SIZES = ("768x2048", "2048x768", "1024x1024", "2048x5632")
KINDS: dict[str, tuple[Callable[..., torch.Tensor], int, bool, str]] = {
    "plain": (lambda x, w: F.linear(x, w), 1, False, "pack"),
    "gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), 1, True, "pack"),
    "gated": (lambda x, a, b: F.silu(F.linear(x, a)) * F.linear(x, b), 2, False, "dual"),
}  # fmt: skip
"""A function of a matrix and weights, the number of weights, whether a bias follows them, and the action."""


def weighed(graph: Graph) -> Graph:
    """Return the graph in which every argument but the first is a weight."""
    first, *others = graph.inputs
    new = [Weight(name=n.name, shape=n.shape, dtype=n.dtype, position=n.position) for n in others]
    weighed = graph.rewritten(dict(zip(others, new, strict=True)))
    return dataclasses.replace(weighed, inputs=(first, *new))


class Kept:
    """Torch for a kernel whose results go to one tensor: what `torch.empty` gives it."""

    def __init__(self, out: torch.Tensor) -> None:
        self.out = out

    def __getattr__(self, name: str) -> object:
        return (lambda *_, **__: self.out) if name == "empty" else getattr(torch, name)


def own(kind: str, x: torch.Tensor, weights: list[torch.Tensor], out: torch.Tensor | None = None) -> Call:
    """Build the engine's kernel, and pack the weights."""
    function, *_, action = KINDS[kind]
    graph = weighed(read(function, [tuple(x.shape), *(tuple(w.shape) for w in weights)]))
    chosen = next(a for a in ACTIONS if a.name == action)
    state = taken(State(graph, graph), chosen, next(iter(chosen.sites(State(graph, graph)))))
    assert state.program is not None
    candidate, language = cpp.render(state.program, graph), get_language("cpp")
    build = language.build(candidate, deadline_s=400)
    kernel: Any = language.load(candidate, Path(str(build.artefact)), ())
    packed = kernel.__globals__["prepare"]({f"x{i + 1}": w for i, w in enumerate(weights)})
    if out is not None:
        kernel.__globals__["torch"] = Kept(out)
    return lambda: kernel(x, packed)


def onnx_model(kind: str, k: int, n: int, weights: list[torch.Tensor]) -> bytes:
    """Return the product as an ONNX model of a matrix of any number of rows."""
    from onnx import TensorProto, helper, numpy_helper

    held = [numpy_helper.from_array((w.t() if w.dim() == 2 else w).contiguous().numpy(), f"w{i}")
            for i, w in enumerate(weights)]  # fmt: skip
    node = helper.make_node
    nodes = {
        "plain": [node("MatMul", ["x", "w0"], ["y"])],
        "gelu": [node("MatMul", ["x", "w0"], ["p"]), node("Add", ["p", "w1"], ["s"]), node("Gelu", ["s"], ["y"])],
        "gated": [
            node("MatMul", ["x", "w0"], ["p"]), node("MatMul", ["x", "w1"], ["q"]), node("Sigmoid", ["p"], ["s"]),
            node("Mul", ["p", "s"], ["g"]), node("Mul", ["g", "q"], ["y"]),
        ],
    }[kind]  # fmt: skip
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, ["m", w]) for e, w in (("x", k), ("y", n))]
    graph = helper.make_graph(nodes, kind, ends[:1], ends[1:], held)
    found: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    return found


def openvino(model: bytes, x: torch.Tensor, out: torch.Tensor, threads: int) -> Call:
    """Compile the model with OpenVINO; results go to the same memory at each call."""
    import openvino as ov

    settings: dict[str, Any] = {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32",
    }  # fmt: skip
    core = ov.Core()
    request = core.compile_model(core.read_model(model), "CPU", settings).create_infer_request()
    request.set_input_tensor(ov.Tensor(x.numpy(), shared_memory=True))
    request.set_output_tensor(ov.Tensor(out.numpy(), shared_memory=True))
    return lambda: request.infer()


def onnxruntime(model: bytes, x: torch.Tensor, out: torch.Tensor, threads: int) -> Call:
    """Load the model in ONNX Runtime; results go to the same memory at each call."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for bind, name, t in ((binding.bind_input, "x", x), (binding.bind_output, "y", out)):
        bind(name, "cpu", 0, "float32", list(t.shape), t.data_ptr())
    return lambda: session.run_with_iobinding(binding)


def variants(
    kind: str, m: int, k: int, n: int, threads: int
) -> tuple[dict[str, Call], dict[str, torch.Tensor]]:
    """Return what is timed, by name, and the results that peers write, for the check."""
    function, count, biased, _ = KINDS[kind]
    torch.manual_seed(m + k + n)
    x = torch.randn(m, k)
    weights = [torch.randn(n, k) / k**0.5 for _ in range(count)] + [torch.randn(n)] * biased
    results = {"own-kept": torch.empty(m, n)}
    calls: dict[str, Call] = {
        "own": own(kind, x, weights), "own-kept": own(kind, x, weights, results["own-kept"]),
        "torch": lambda: function(x, *weights),
    }  # fmt: skip
    for name, begin in (("openvino", openvino), ("onnxruntime", onnxruntime)):
        if importlib.util.find_spec(name) and importlib.util.find_spec("onnx"):
            results[name] = torch.empty(m, n)
            calls[name] = begin(onnx_model(kind, k, n, weights), x, results[name], threads)
    return calls, results


def timed(calls: dict[str, Call], seconds: float, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Time the calls in turns, for so many seconds of the wall and five rounds at least."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    order, end = list(calls), time.perf_counter() + seconds
    while time.perf_counter() < end or len(found["own"]) < 5:
        random.shuffle(order)
        for name in order:
            begun = clock()
            calls[name]()
            found[name].append(clock() - begun)
    return found


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row for each product and variant; raises where a variant's result is another."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    for size in options.sizes.split(","):
        k, n = map(int, size.split("x"))
        for kind in (kind for kind in KINDS if options.only in kind):
            for m in map(int, options.rows.split(",")):
                calls, results = variants(kind, m, k, n, options.threads)
                wanted = calls["torch"]()
                for name, call in calls.items():
                    got = call() if name == "own" else (call(), results.get(name, wanted))[1]
                    assert isinstance(got, torch.Tensor) and isinstance(wanted, torch.Tensor)
                    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4, msg=f"{name} of {kind}")
                for name, times in timed(calls, options.seconds, clock).items():
                    yield {
                        "kind": kind, "rows": m, "inner": k, "columns": n, "variant": name, "threads": options.threads,
                        "clock": options.clock, "calls": len(times), "least_us": min(times) * 1e6,
                        "median_us": statistics.median(times) * 1e6,
                    }  # fmt: skip


def main() -> None:
    """Time every product, print what each variant took next to the own kernel's time, and save the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in ("openvino", "onnxruntime", "onnx"):
        if not importlib.util.find_spec(name):
            print(f"{name} is not installed: its variant is left out", file=sys.stderr)
    found: list[dict[str, object]] = []
    with torch.inference_mode():
        for row in rows(options):
            found.append(row)
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            first = next(r for r in reversed(found) if r["variant"] == "own")
            ratio = float(str(row["least_us"])) / float(str(first["least_us"]))
            middle = float(str(row["median_us"])) / float(str(first["median_us"]))
            shown = " ".join(str(row[c]) for c in ("kind", "rows", "inner", "columns"))
            print(
                f"{shown:24} {row['variant']:12} {row['least_us']:10.0f} us  {ratio:5.2f} {middle:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
