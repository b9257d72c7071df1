"""Losses that pick a class: gather, then average."""

from ....tasks.capture import Node as Captured
from .._nodes import Gather
from .._reader import NotRead, Reader, Result, rule


@rule("nll_loss_forward")
def _nll(b: Reader, op: Captured) -> Result:
    """`-x[row, class]` of every row, by reduction mode: each, mean or sum; the ignored class counts nothing."""
    given = op.arguments()
    x, target = b.node(given["self"]), b.node(given["target"])
    if given.get("weight") is not None or len(x.shape) != 2:
        raise NotRead("weighted classes")
    ignored = given["ignore_index"]
    ignored = int(ignored) if isinstance(ignored, int) else -100
    keep = b.point("ne", target, ignored, dtype="bool")
    safe = b.point("where", keep, target, 0, dtype="int64")
    index = b.reshape(safe, (*target.shape, 1))
    picked = Gather(
        name=b.name("picked"), shape=index.shape, dtype=x.dtype, source=x, index=index, dim=1, aligned=True
    )
    each = b.point("where", keep, b.point("neg", b.reshape(picked, target.shape)), 0, dtype=x.dtype)
    count = b.reduce(b.point("cast", keep, dtype=x.dtype), (), "sum")
    if given["reduction"] == 0:
        return each, count
    total = b.reduce(each, (), "sum")
    return (b.point("div", total, count) if given["reduction"] == 1 else total), count
