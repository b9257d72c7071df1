"""Rows longer than a core's cache: softmax, norms and losses against eager, torch.compile, OpenVINO and ONNX Runtime.

    python -m benchmarks.rows [--only softmax] [--threads 1] [--seconds 2] [--clock cpu] [--out rows.jsonl]

The own kernel is the fastest of the first programs of the policy, by a few calls each. `wide` draws scores with a
deviation of 30, so that most exponentials are near zero or subnormal. `side_by_side` says how it is timed.
"""

import argparse
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

from benchmarks.side_by_side import Case, main

SIZES = ((64, 131072), (16, 262144), (256, 16384))
KINDS: dict[str, tuple[Callable[..., torch.Tensor], int, float]] = {
    "softmax": (lambda x: torch.softmax(x, -1), 0, 1.0),
    "softmax-wide": (lambda x: torch.softmax(x, -1), 0, 30.0),
    "log-softmax": (lambda x: torch.log_softmax(x, -1), 0, 1.0),
    "layer-norm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), 2, 1.0),
    "gelu-layer-norm": (lambda x, w, b: F.layer_norm(F.gelu(x), x.shape[-1:], w, b), 2, 1.0),
    "rms-norm": (lambda x, w: F.rms_norm(x, x.shape[-1:], w), 1, 1.0),
    "log-sum-exp": (lambda x: torch.logsumexp(x, -1), 0, 1.0),
}  # fmt: skip
"""A function of rows and of vectors as long as they are, how many of those, and the deviation of the rows."""
_ONNX = {"softmax": "Softmax", "softmax-wide": "Softmax", "log-softmax": "LogSoftmax"}


def onnx_model(kind: str, shape: tuple[int, int]) -> bytes:
    """Return the one operation as an ONNX model."""
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, shape) for e in ("x0", "y")]
    node = helper.make_node(_ONNX[kind], ["x0"], ["y"], axis=-1)
    graph = helper.make_graph([node], kind, ends[:1], ends[1:])
    found: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    return found


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield every kind at every size."""
    for kind, (function, vectors, deviation) in KINDS.items():
        for shape in SIZES:
            name = f"{kind} {shape[0]}x{shape[1]}"
            if options.only in name:
                torch.manual_seed(shape[1])
                tensors = [torch.randn(shape) * deviation, *(torch.randn(shape[1:]) for _ in range(vectors))]
                model = (lambda kind=kind, shape=shape: onnx_model(kind, shape)) if kind in _ONNX else None
                yield Case(name, function, tuple(tensors), {}, model)


if __name__ == "__main__":
    main(cases, __doc__, programs=3)
