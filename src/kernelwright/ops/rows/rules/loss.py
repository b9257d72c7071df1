"""Negative log-likelihood with index targets; other losses are captured as elementwise chains and reductions."""

from ....languages.vectors import Unprintable
from ....tasks.capture import Node
from .._program import Builder, Value, rule

_MEAN, _SUM = 1, 2


@rule("nll_loss_forward", "nll_loss2d_forward")
def _nll(b: Builder, node: Node) -> tuple[Value | None, ...]:
    """Pick x[target] along the class dimension."""
    x_ref, target_ref, weight, reduction, ignored = node.args
    if weight is not None or not isinstance(ignored, int):
        raise Unprintable("class weights")
    x, target = b.get(x_ref), b.get(target_ref)
    dim = 1 if len(x.dims) > 1 else 0
    lifted = b.with_dims(target, (*target.dims[:dim], (), *target.dims[dim:]))
    chosen = b.point("eq", b.index(x, dim), lifted)
    picked = _picked(b, x, chosen, dim)
    valid = b.point("ne", target, ignored)
    loss = b.point("where", valid, b.point("neg", picked), 0.0)
    if reduction not in (_MEAN, _SUM):
        return loss, None
    total = b.reduce("sum", loss, ())
    if reduction == _SUM:
        return total, None
    return b.point("div", total, b.reduce("sum", valid, ())), None


def _picked(b: Builder, x: Value, chosen: Value, dim: int) -> Value:
    """Return x where a dimension's position is the chosen one, as a masked sum: the row is being read anyway.

    For elementwise values their operands are picked instead: otherwise a log-softmax would be computed for the whole
    row once its sum is known, in a separate pass.
    """
    own = dim - (len(chosen.dims) - len(x.dims))
    if own < 0:
        return x
    if not x.dims[own]:
        return b.with_dims(x, (*x.dims[:own], *x.dims[own + 1 :]))
    if x.op == "point" and x.what != "alias":
        args = [_picked(b, a, chosen, dim) if isinstance(a, Value) else a for a in x.args]
        return b.point(x.what, *args, **dict(x.kwargs))
    return b.reduce("sum", b.point("where", chosen, x, 0.0), (dim,))
