"""Level 2: one kernel each, of the kind that libraries offer."""

import numpy as np
from numpy.typing import NDArray

from ..expression import (
    COL,
    Array,
    Gather,
    Map,
    MatMul,
    Reduce,
    Transpose,
    const,
    exp,
    greater,
    ref,
    size,
    sqrt,
)
from ._task import CraftTask, Given

_MN = {"m": (1, 16, 8), "n": (1, 200, 96)}
_MKN = {"m": (1, 32, 20), "k": (1, 40, 32), "n": (1, 48, 40)}
X = ref("x")
_NORMS = ("normal", "large", "small")
TAPS = 5
"""Taps of the convolution."""


def softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax of each row."""
    e = np.exp(x - x.max(-1, keepdims=True))
    found: NDArray[np.float64] = e / e.sum(-1, keepdims=True)
    return found


def _conv(g: Given) -> NDArray[np.float64]:
    return np.stack([np.correlate(row, g["w"][0], "valid") for row in g["x"]])


def _layer_norm(g: Given) -> NDArray[np.float64]:
    x = g["x"]
    y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    found: NDArray[np.float64] = y * g["gain"] + g["bias"]
    return found


def _rms_norm(g: Given) -> NDArray[np.float64]:
    x = g["x"]
    found: NDArray[np.float64] = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g["gain"]
    return found


def _first_probability(g: Given) -> NDArray[np.float64]:
    """Return the first column of the softmax."""
    x = g["x"]
    top = x.max(1)
    found: NDArray[np.float64] = np.exp(x[:, 0] - top) / np.exp(x - top[:, None]).sum(1)
    return found


def _vector(name: str) -> Array:
    return Array(name, 1, "m", "temp")


_SOFTMAX = (
    Reduce("top", "max", X, "x"),
    Map("e", exp(X - ref("top", "col"))),
    Reduce("total", "add", ref("e"), "x"),
    Map("out", ref("e") / ref("total", "col")),
)
_OUT = Array("out", "m", "n", "out")
_IN = Array("x", "m", "n")

LEVEL2 = (
    CraftTask("matmul", 2, "out = a times b, for a of m rows and k columns, b of k rows and n columns", _MKN,
              (Array("a", "m", "k"), Array("b", "k", "n"), _OUT), (MatMul("out", "a", "b"),),
              lambda g: g["a"] @ g["b"]),
    CraftTask("matmul_nt", 2, "out[i, j] = the sum over k of a[i, k] * b[j, k]", _MKN,
              (Array("a", "m", "k"), Array("b", "n", "k"), _OUT), (MatMul("out", "a", "b", transposed=True),),
              lambda g: np.einsum("ik,jk->ij", g["a"], g["b"])),
    CraftTask("matvec", 2, "out[r] = the sum over c of x[r, c] * w[c]", {"m": (1, 32, 24), "n": (1, 200, 96)},
              (_IN, Array("w", 1, "n"), Array("out", 1, "m", "out")),
              (Reduce("out", "add", X * ref("w", "row"), "x"),), lambda g: g["x"] @ g["w"][0]),
    CraftTask("softmax", 2, "out[r, c] = exp(x[r, c]) / the sum over row r of exp(x), for values up to 100 too", _MN,
              (_IN, _OUT, _vector("top"), Array("e", "m", "n", "temp"), _vector("total")), _SOFTMAX,
              lambda g: softmax(g["x"])),
    CraftTask("layernorm", 2, "each row of x less its mean, divided by sqrt(its variance + 1e-5), "
              "times gain, plus bias", _MN,
              (_IN, Array("gain", 1, "n"), Array("bias", 1, "n"), _OUT, _vector("total"),
               Array("y", "m", "n", "temp"), _vector("spread")),
              (Reduce("total", "add", X, "x"), Map("y", X - ref("total", "col") / size("n")),
               Reduce("spread", "add", ref("y") * ref("y"), "x"),
               Map("out", ref("y") / sqrt(ref("spread", "col") / size("n") + 1e-5) * ref("gain", "row")
                   + ref("bias", "row"))), _layer_norm, regimes=_NORMS),
    CraftTask("rmsnorm", 2, "each row of x divided by sqrt(the mean of its squares + 1e-5), times gain", _MN,
              (_IN, Array("gain", 1, "n"), _OUT, _vector("squares")),
              (Reduce("squares", "add", X * X, "x"),
               Map("out", X / sqrt(ref("squares", "col") / size("n") + 1e-5) * ref("gain", "row"))), _rms_norm,
              regimes=_NORMS),
    CraftTask("conv1d", 2, f"out[r, c] = the sum over j < {TAPS} of x[r, c + j] * w[j]", _MN,
              (Array("x", "m", f"n+{TAPS - 1}"), Array("w", 1, TAPS), _OUT),
              (Map("out", ref("x", "shift", 0) * ref("w", "elem", 0) + ref("x", "shift", 1) * ref("w", "elem", 1)
                   + ref("x", "shift", 2) * ref("w", "elem", 2) + ref("x", "shift", 3) * ref("w", "elem", 3)
                   + ref("x", "shift", 4) * ref("w", "elem", 4)),), _conv),
    CraftTask("transpose", 2, "out[c, r] = x[r, c]", {"m": (1, 48, 30), "n": (1, 64, 40)},
              (_IN, Array("out", "n", "m", "out")), (Transpose("out", "x"),), lambda g: g["x"].T, exact=True),
    CraftTask("gather", 2, "out[r] = row index[r] of table; index holds whole numbers",
              {"m": (1, 32, 20), "t": (1, 40, 24), "n": (1, 96, 50)},
              (Array("table", "t", "n"), Array("index", 1, "m"), _OUT), (Gather("out", "table", "index"),),
              lambda g: g["table"][g["index"][0].astype(int)], exact=True, index={"index": "table"}),
    CraftTask("first_probability", 2,
              "out[r] = exp(x[r, 0]) / the sum over row r of exp(x), for values up to 100 too", _MN,
              (_IN, Array("out", 1, "m", "out"), _vector("top"), Array("e", "m", "n", "temp"), _vector("total"),
               _vector("first")),
              (Reduce("top", "max", X, "x"), Map("e", exp(X - ref("top", "col"))),
               Reduce("total", "add", ref("e"), "x"),
               Reduce("first", "add", ref("e") * greater(const(1.0), COL), "x"),
               Map("out", ref("first") / ref("total"))), _first_probability,
              equivalent=("first: reduced with max",)),
)  # fmt: skip
"""Tasks of level 2."""
