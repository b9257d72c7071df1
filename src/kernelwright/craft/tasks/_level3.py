"""Level 3: several kernels in a row, where keeping values on the chip pays."""

import numpy as np
from numpy.typing import NDArray

from ..expression import COL, ROW, Array, Map, MatMul, Reduce, const, exp, greater, maximum, ref, size, sqrt
from ._level2 import softmax
from ._task import CraftTask, Given

_QKV = {"m": (1, 20, 12), "n": (1, 32, 24), "d": (1, 32, 16)}
_MLP = {"m": (1, 16, 8), "k": (1, 32, 16), "h": (1, 48, 32), "n": (1, 32, 16)}
SCALE = 0.25
"""What attention scores are multiplied by."""


def _temp(name: str, rows: str | int, cols: str | int) -> Array:
    return Array(name, rows, cols, "temp")


def _silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = x / (1 + np.exp(-x))
    return found


def _attention(g: Given) -> NDArray[np.float64]:
    found: NDArray[np.float64] = softmax(SCALE * g["q"] @ g["k"].T) @ g["v"]
    return found


def _causal(g: Given) -> NDArray[np.float64]:
    scores = SCALE * g["q"] @ g["k"].T
    scores[np.triu_indices(len(scores), 1)] = -np.inf
    found: NDArray[np.float64] = softmax(scores) @ g["v"]
    return found


def _mlp(g: Given) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.maximum(g["x"] @ g["w1"] + g["b1"], 0) @ g["w2"]
    return found


def _swiglu(g: Given) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (_silu(g["x"] @ g["wg"]) * (g["x"] @ g["wu"])) @ g["w2"]
    return found


def _norm_project(g: Given) -> NDArray[np.float64]:
    s = g["x"] + g["residual"]
    found: NDArray[np.float64] = (s / np.sqrt((s * s).mean(1, keepdims=True) + 1e-5)) @ g["w"]
    return found


def _distances(g: Given) -> NDArray[np.float64]:
    found: NDArray[np.float64] = ((g["x"][:, None, :] - g["c"][None, :, :]) ** 2).sum(2)
    return found


def _conv_pool(g: Given) -> NDArray[np.float64]:
    rows = [np.correlate(row, g["w"][0], "valid") for row in g["x"]]
    return np.array([np.maximum(row, 0).max() for row in rows])


def _softmax_of(scores: str) -> tuple[Reduce | Map, ...]:
    return (
        Reduce("top", "max", ref(scores), scores),
        Map("e", exp(ref(scores) - ref("top", "col"))),
        Reduce("total", "add", ref("e"), "e"),
        Map("p", ref("e") / ref("total", "col")),
    )


def _attention_arrays(keys: str) -> tuple[Array, ...]:
    return (
        Array("q", "m", "d"), Array("k", keys, "d"), Array("v", keys, "d"), Array("out", "m", "d", "out"),
        _temp("raw", "m", keys), _temp("s", "m", keys), _temp("top", 1, "m"), _temp("e", "m", keys),
        _temp("total", 1, "m"), _temp("p", "m", keys),
    )  # fmt: skip


LEVEL3 = (
    CraftTask("attention", 3, f"out = softmax({SCALE} * q times k transposed) times v, softmax over each row", _QKV,
              _attention_arrays("n"),
              (MatMul("raw", "q", "k", transposed=True), Map("s", ref("raw") * SCALE), *_softmax_of("s"),
               MatMul("out", "p", "v")), _attention, regimes=("normal", "wide", "negative")),
    CraftTask("causal_attention", 3, "out = softmax(s) times v for s[i, j] = "
              f"{SCALE} * the dot product of q[i] and k[j] where j <= i, and no weight where j > i",
              {"m": (1, 24, 16), "d": (1, 32, 16)}, _attention_arrays("m"),
              (MatMul("raw", "q", "k", transposed=True),
               Map("s", ref("raw") * SCALE - greater(COL, ROW) * 1e30), *_softmax_of("s"),
               MatMul("out", "p", "v")), _causal, regimes=("normal", "wide", "negative")),
    CraftTask("mlp", 3, "out = the larger of 0 and (x times w1 + b1), times w2", _MLP,
              (Array("x", "m", "k"), Array("w1", "k", "h"), Array("b1", 1, "h"), Array("w2", "h", "n"),
               Array("out", "m", "n", "out"), _temp("u", "m", "h"), _temp("a", "m", "h")),
              (MatMul("u", "x", "w1"), Map("a", maximum(ref("u") + ref("b1", "row"), 0.0)), MatMul("out", "a", "w2")),
              _mlp, regimes=("normal", "large")),
    CraftTask("swiglu", 3, "out = (silu(x times wg) * (x times wu)) times w2, for silu(t) = t / (1 + exp(-t))", _MLP,
              (Array("x", "m", "k"), Array("wg", "k", "h"), Array("wu", "k", "h"), Array("w2", "h", "n"),
               Array("out", "m", "n", "out"), _temp("g", "m", "h"), _temp("u", "m", "h"), _temp("a", "m", "h")),
              (MatMul("g", "x", "wg"), MatMul("u", "x", "wu"),
               Map("a", ref("g") / (exp(-ref("g")) + 1.0) * ref("u")), MatMul("out", "a", "w2")), _swiglu,
              regimes=("normal", "negative")),
    CraftTask("norm_project", 3, "s = x + residual; each row of s divided by sqrt(the mean of its squares + 1e-5); "
              "out = that times w", {"m": (1, 16, 8), "k": (1, 48, 40), "n": (1, 40, 24)},
              (Array("x", "m", "k"), Array("residual", "m", "k"), Array("w", "k", "n"), Array("out", "m", "n", "out"),
               _temp("s", "m", "k"), _temp("squares", 1, "m"), _temp("y", "m", "k")),
              (Map("s", ref("x") + ref("residual")), Reduce("squares", "add", ref("s") * ref("s"), "s"),
               Map("y", ref("s") / sqrt(ref("squares", "col") / size("k") + 1e-5)), MatMul("out", "y", "w")),
              _norm_project, regimes=("normal", "large", "small")),
    CraftTask("distances", 3, "out[i, j] = the sum over d of (x[i, d] - c[j, d]) squared; errors are held against "
              "the norms", {"m": (1, 24, 16), "n": (1, 24, 12), "d": (1, 40, 24)},
              (Array("x", "m", "d"), Array("c", "n", "d"), Array("out", "m", "n", "out"), _temp("xc", "m", "n"),
               _temp("xx", 1, "m"), _temp("cc", 1, "n")),
              (MatMul("xc", "x", "c", transposed=True), Reduce("xx", "add", ref("x") * ref("x"), "x"),
               Reduce("cc", "add", ref("c") * ref("c"), "c"),
               Map("out", ref("xx", "col") + ref("cc", "row") - const(2.0) * ref("xc"))), _distances),
    CraftTask("conv_pool", 3, "y[r, c] = the sum over j < 5 of x[r, c + j] * w[j]; "
              "out[r] = the largest of 0 and y[r]", {"m": (1, 16, 8), "n": (1, 120, 80)},
              (Array("x", "m", "n+4"), Array("w", 1, 5), Array("out", 1, "m", "out"), _temp("y", "m", "n")),
              (Map("y", ref("x", "shift", 0) * ref("w", "elem", 0) + ref("x", "shift", 1) * ref("w", "elem", 1)
                   + ref("x", "shift", 2) * ref("w", "elem", 2) + ref("x", "shift", 3) * ref("w", "elem", 3)
                   + ref("x", "shift", 4) * ref("w", "elem", 4)),
               Reduce("out", "max", maximum(ref("y"), 0.0), "y")), _conv_pool),
)  # fmt: skip
"""Tasks of level 3."""
