"""Level 1: elementwise, copies, reductions."""

import numpy as np

from ..expression import Array, Map, Reduce, const, exp, greater, maximum, minimum, ref
from ._task import CraftTask

_N = {"n": (1, 2048, 1000)}
_MN = {"m": (1, 24, 12), "n": (1, 300, 200)}
X, Y = ref("x"), ref("y")


def _vectors(*names: str) -> tuple[Array, ...]:
    return (*(Array(name, 1, "n") for name in names), Array("out", 1, "n", "out"))


_ROWS = (Array("x", "m", "n"), Array("out", 1, "m", "out"))

LEVEL1 = (
    CraftTask("copy", 1, "out[i] = x[i]", _N, _vectors("x"), (Map("out", X),), lambda g: g["x"], exact=True),
    CraftTask("add", 1, "out[i] = x[i] + y[i]", _N, _vectors("x", "y"), (Map("out", X + Y),),
              lambda g: g["x"] + g["y"]),
    CraftTask("axpy", 1, "out[i] = a[0] * x[i] + y[i]", _N, (Array("a", 1, 1), *_vectors("x", "y")),
              (Map("out", ref("a", "elem") * X + Y),), lambda g: g["a"][0, 0] * g["x"] + g["y"]),
    CraftTask("relu", 1, "out[i] = x[i] if x[i] > 0, else 0", _N, _vectors("x"), (Map("out", maximum(X, 0.0)),),
              lambda g: np.where(g["x"] > 0, g["x"], 0.0), exact=True),
    CraftTask("clamp", 1, "out[i] = x[i], but at least -1 and at most 1", _N, _vectors("x"),
              (Map("out", minimum(maximum(X, -1.0), 1.0)),), lambda g: np.clip(g["x"], -1, 1), exact=True,
              regimes=("normal", "large")),
    CraftTask("silu", 1, "out[i] = x[i] / (1 + exp(-x[i]))", _N, _vectors("x"),
              (Map("out", X / (exp(-X) + 1.0)),), lambda g: g["x"] / (1 + np.exp(-g["x"]))),
    CraftTask("row_sum", 1, "out[r] = the sum of row r of x", _MN, _ROWS, (Reduce("out", "add", X, "x"),),
              lambda g: g["x"].sum(1)),
    CraftTask("row_max", 1, "out[r] = the largest value of row r of x", _MN, _ROWS, (Reduce("out", "max", X, "x"),),
              lambda g: g["x"].max(1), exact=True),
    CraftTask("dot", 1, "out[0] = the sum of x[i] * y[i]", _N,
              (Array("x", 1, "n"), Array("y", 1, "n"), Array("out", 1, 1, "out")),
              (Reduce("out", "add", X * Y, "x"),), lambda g: (g["x"] * g["y"]).sum()),
    CraftTask("count_positive", 1, "out[r] = how many values of row r of x are above 0", _MN, _ROWS,
              (Reduce("out", "add", greater(X, const(0.0)), "x"),), lambda g: (g["x"] > 0).sum(1), exact=True),
)  # fmt: skip
"""Tasks of level 1."""
