"""Linear layers with weights of 4 and 8 bits against torch, OpenVINO and ONNX Runtime, in one process.

    python -m benchmarks.ops.lowbit [--only 1x4096x4096] [--threads 1] [--rounds 15] [--out rows.jsonl]

A row is one size in one precision: the least time of each variant, and the median of the ratios of each peer's time
to ours in the same round. Variants take turns within a round. With one thread the clock is the process's CPU seconds,
which other work on the machine disturbs least, else the wall. `memory` walks through copies of the weight that together
are past the last cache, as a model's layers do; `cache` has one copy. `bound_us` is the time to read the codes and
scales at the read bandwidth of memory, measured with as many threads before the rows.

Peers by precision, the ones that are no less precise: `float` keeps activations as they are, `int8` quantises them
block by block. OpenVINO and ONNX Runtime are left out where they are not installed (`pip install openvino
onnxruntime onnx`).
"""

import argparse
import dataclasses
import functools
import importlib.util
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.ops import lowbit

Call = Callable[[], object]
GROUP = 128
_PAST_CACHE = 48 << 20
SIZES = (
    ("1x4096x4096", "cache"), ("1x2048x2048", "cache"), ("1x11008x4096", "cache"), ("1x4096x11008", "cache"),
    ("2x4096x4096", "cache"), ("4x4096x4096", "cache"), ("8x4096x4096", "cache"), ("32x4096x4096", "cache"),
    ("1x4096x4096", "memory"),
)  # fmt: skip
"""Rows x outputs x inner, and where the weight lies."""
PRECISIONS = (
    ("int4", "float32", "float"), ("int4", "bfloat16", "float"), ("int4", "float32", "int8"),
    ("int8", "float32", "int8"), ("int8", "bfloat16", "float"),
)  # fmt: skip
"""Weights, dtype of activations, and how they are multiplied."""


class Weight:
    """One weight in codes, from which every variant is made."""

    def __init__(self, outputs: int, inner: int, bits: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.outputs, self.inner, self.bits = outputs, inner, bits
        self.codes = torch.randint(0, 1 << bits, (outputs, inner), dtype=torch.uint8)
        self.scales = (torch.rand(outputs, inner // GROUP) * 0.1).bfloat16()

    @functools.cached_property
    def packed(self) -> lowbit.PackedWeight:
        """The codes as the library packs them."""
        return lowbit.of(self.codes, self.scales, bits=self.bits, group=GROUP, zero=1 << self.bits - 1)

    def nibbles(self) -> torch.Tensor:
        """The codes side by side, two in a byte."""
        return self.codes[:, 0::2] | self.codes[:, 1::2] << 4

    def floats(self) -> torch.Tensor:
        """What the codes stand for."""
        zero = 1 << self.bits - 1
        return (self.codes.double() - zero) * self.scales.double().repeat_interleave(GROUP, 1)


def own(weight: Weight, x: torch.Tensor, activations: str) -> Call:
    """The library's kernel."""
    packed = dataclasses.replace(weight.packed, codes=weight.packed.codes.clone())
    return lambda: lowbit.linear(x, packed, activations=activations)


def torch_int4(weight: Weight, x: torch.Tensor) -> Call:
    """Torch's own product with int4 weights."""
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(weight.codes.int(), 1)
    scales = weight.scales.T.to(x.dtype)
    scales_and_zeros = torch.stack([scales, torch.zeros_like(scales)], -1).contiguous()
    return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, GROUP, scales_and_zeros)


def torch_int8(weight: Weight, x: torch.Tensor) -> Call:
    """Torch's own product with int8 weights; it has a scale for each output, and no groups."""
    codes, scales = (weight.codes.int() - 128).to(torch.int8), weight.scales[:, 0].to(x.dtype).contiguous()
    return lambda: torch.ops.aten._weight_int8pack_mm(x, codes, scales)


def torch_int_mm(weight: Weight, x: torch.Tensor) -> Call:
    """Torch's product of int8 matrices, the activations quantised before each; a scale for each row and output."""
    codes, scales = (weight.codes.int() - 128).to(torch.int8).T, weight.scales[:, 0].float()

    def call() -> torch.Tensor:
        largest = x.abs().amax(1, keepdim=True)
        rows = (x * (127 / largest)).round().to(torch.int8)
        return torch._int_mm(rows, codes).float() * (largest / 127) * scales

    return call


def openvino(weight: Weight, x: torch.Tensor, activations: str, threads: int) -> Call:
    """OpenVINO's compressed weights; `int8` is its dynamic quantisation, on blocks as long as the groups."""
    import numpy as np
    import openvino as ov
    from openvino import opset13 as op

    n, k, groups, kept = weight.outputs, weight.inner, weight.inner // GROUP, []

    def constant(codes: Any, shape: list[int]) -> Any:
        kept.append(codes)  # OpenVINO reads it where it lies
        kind = ov.Type.u4 if weight.bits == 4 else ov.Type.u8
        return op.convert(op.constant(ov.Tensor(codes, ov.Shape(shape), kind)), np.float16)

    codes = (weight.nibbles() if weight.bits == 4 else weight.codes).numpy()
    zeros = np.full(n * groups // (8 // weight.bits), 0x88 if weight.bits == 4 else 128, np.uint8)
    scales = op.constant(weight.scales.half().numpy().reshape(n, groups, 1))
    parts = op.multiply(
        op.subtract(constant(codes, [n, groups, GROUP]), constant(zeros, [n, groups, 1])), scales
    )
    whole = op.convert(op.reshape(parts, np.array([n, k]), special_zero=False), np.float32)
    given = op.parameter([len(x), k], np.float32)
    model = ov.Model([op.matmul(given, whole, transpose_a=False, transpose_b=True)], [given])
    config = {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if activations == "int8" else 0,
    }  # fmt: skip
    request = ov.Core().compile_model(model, "CPU", config).create_infer_request()
    request.set_input_tensor(ov.Tensor(x.numpy(), shared_memory=True))

    def call() -> torch.Tensor:
        request.infer()
        return torch.from_numpy(request.get_output_tensor().data)

    call.kept = kept  # type: ignore[attr-defined]
    return call


def onnxruntime(weight: Weight, x: torch.Tensor, activations: str, threads: int) -> Call:
    """ONNX Runtime's MatMulNBits; `int8` is its accuracy level 4."""
    import onnxruntime as ort
    from onnx import helper, numpy_helper

    n, k = weight.outputs, weight.inner
    codes = (weight.nibbles() if weight.bits == 4 else weight.codes).reshape(n, k // GROUP, -1)
    held = [
        numpy_helper.from_array(codes.numpy(), "codes"),
        numpy_helper.from_array(weight.scales.float().reshape(-1).numpy(), "scales"),
    ]
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", K=k, N=n, bits=weight.bits,
        block_size=GROUP, accuracy_level=4 if activations == "int8" else 0,
    )  # fmt: skip
    rows = [helper.make_tensor_value_info(name, 1, [len(x), size]) for name, size in (("x", k), ("y", n))]
    graph = helper.make_graph([node], "linear", rows[:1], rows[1:], held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {"x": x.numpy()}
    return lambda: torch.from_numpy(session.run(None, given)[0])


def variants(
    precision: tuple[str, str, str], threads: int
) -> dict[str, Callable[[Weight, torch.Tensor], Call]]:
    """Name what computes a size in a precision, ours first."""
    weights, dtype, activations = precision
    found: dict[str, Callable[[Weight, torch.Tensor], Call]] = {"own": lambda w, x: own(w, x, activations)}
    if weights == "int4" and dtype == "bfloat16":
        found["torch"] = torch_int4
    if weights == "int8" and activations == "float":
        found["torch"] = torch_int8
    if weights == "int8" and activations == "int8":
        found["torch"] = torch_int_mm
    if dtype == "float32":
        for name, make in (("openvino", openvino), ("onnxruntime", onnxruntime)):
            if importlib.util.find_spec(name) is not None:
                found[name] = lambda w, x, make=make: make(w, x, activations, threads)  # type: ignore[misc]
    return found


def measured(
    size: str, place: str, precision: tuple[str, str, str], threads: int, rounds: int, bandwidth: float
) -> dict[str, Any]:
    """Time the variants of one size in turn."""
    rows, outputs, inner = map(int, size.split("x"))
    bits = int(precision[0][3:])
    size_bytes = outputs * inner * bits // 8 + outputs * inner // GROUP * 2
    copies = max(1, -(-_PAST_CACHE // size_bytes)) if place == "memory" else 1
    copies = min(copies, 12)
    x = torch.randn(rows, inner).to(getattr(torch, precision[1]))
    weights = [Weight(outputs, inner, bits, seed) for seed in range(min(copies, 2))]
    calls, errors = {}, {}
    expected = x.double() @ weights[0].floats().T
    for name, make in variants(precision, threads).items():
        calls[name] = [make(weights[i % len(weights)], x) for i in range(copies)]
        out = calls[name][0]()
        assert isinstance(out, torch.Tensor)
        errors[name] = float((out.double() - expected).abs().max() / expected.abs().mean())
    clock = time.process_time if threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            for call in calls[name][-2:]:
                call()
            begun = clock()
            for call in calls[name] if copies > 1 else calls[name] * 4:
                call()
            times[name].append((clock() - begun) / max(copies, 4 if copies == 1 else 1) * 1e6)
    row: dict[str, Any] = {
        "size": size, "place": place, "weights": precision[0], "dtype": precision[1], "activations": precision[2],
        "group": GROUP, "threads": threads, "load": round(os.getloadavg()[0], 1), "copies": copies,
        "us": {name: round(min(each), 1) for name, each in times.items()},
        "median_us": {name: round(statistics.median(each), 1) for name, each in times.items()},
        "ratio": {
            name: round(statistics.median(a / b for a, b in zip(each, times["own"], strict=True)), 2)
            for name, each in times.items() if name != "own"
        },
        "error": errors, "bound_us": round(size_bytes / bandwidth * 1e6, 1),
        "gbps": round(size_bytes / min(times["own"]) / 1e3, 1),
    }  # fmt: skip
    row["of_bound"] = round(row["bound_us"] / row["us"]["own"], 2)
    return row


def read_bandwidth(threads: int) -> float:
    """Return the bytes a second that so many threads read from memory."""
    from kernelwright.config import Settings
    from kernelwright.devices import _cpu_peaks, detect

    device = detect("cpu").model_copy(update={"cores": threads})
    return _cpu_peaks.cpu_peaks(device, Settings.from_environment())["dram.read"].value


def main() -> None:
    """Print a line for each size and precision, and keep the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="sizes or precisions that contain this")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    bandwidth = read_bandwidth(given.threads)
    print(f"reads {bandwidth / 1e9:.1f} GB/s with {given.threads} threads", file=sys.stderr)
    for precision in PRECISIONS:
        for size, place in SIZES:
            name = f"{size} {place} {' '.join(precision)}"
            if given.only not in name:
                continue
            row = measured(size, place, precision, given.threads, given.rounds, bandwidth)
            print(
                f"{name}: {row['us']} us, peers {row['ratio']}, {row['of_bound']} of the bound, {row['gbps']} GB/s",
                flush=True,
            )
            if given.out:
                with given.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
