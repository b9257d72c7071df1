"""Graph of a training step → the same without its loss head, which a kernel computes together with its gradients.

A head is a linear layer, with or without bias, and the cross-entropy of its results, a mean or a sum over rows. The
kernel of `ops.loss` computes the losses and the gradients from what the layer takes, 256 rows of logits at a time, so
that logits are never stored whole.

Covers: between the layer and the loss, whatever moves whole rows: views, slices, copies.
Does not cover: logits that something else reads, as where the model returns them; weights of classes, smoothed labels,
capped or scaled logits, other dtypes than float32.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import fx

from ._harvest import Head

_aten = torch.ops.aten
_VIEWS = (
    _aten.view.default, _aten._unsafe_view.default, _aten.reshape.default, _aten.unsqueeze.default,
    _aten.squeeze.dim, _aten.clone.default, _aten.alias.default,
)  # fmt: skip
"""What leaves the rows and their order as they are."""
_SLICES = {_aten.slice.Tensor: 1, _aten.slice_backward.default: 2}
"""What takes or gives rows, and the place of the dimension among its arguments."""
_MEAN, _SUM = 1, 2
"""Reductions of losses, as torch numbers them."""


class NoHeadError(Exception):
    """A graph has no head that is known; the message says why."""


@dataclass(frozen=True)
class Cut:
    """A graph whose head was taken out."""

    head: Head
    """The head."""
    asked: tuple[fx.Node, ...]
    """What its kernel takes: the layer's input, its weight, targets, bias where there is one, each row's share."""
    made: tuple[fx.Node, ...]
    """Inputs that stand for what it gives: losses, gradients in the layer's input, its weight, its bias."""


def without_head(graph: fx.GraphModule, seed: fx.Node) -> Cut:
    """Take the head out of a step's graph.

    Args:
        graph: The step, operator by operator; changed in place, also where that fails.
        seed: The gradient of its loss, which is one.

    Raises:
        NoHeadError: it has none, or one that is not covered.
    """
    losses = graph.graph.find_nodes(op="call_function", target=_aten.nll_loss_backward.default)
    if len(losses) != 1:
        raise NoHeadError(f"{len(losses)} losses of classes; a head has one")
    return _Found(losses[0], seed).cut()


def _no(why: str) -> NoReturn:
    raise NoHeadError(why)


def _value(node: fx.Node) -> torch.Tensor:
    found = node.meta.get("val")
    return found if isinstance(found, torch.Tensor) else _no(f"{node} is no tensor")


def _only(node: fx.Node, target: object, *, among: int = 1) -> fx.Node:
    """Return the only user of a node that calls this, where it has so many users."""
    found = [user for user in node.users if user.target is target]
    return found[0] if len(node.users) == among and len(found) == 1 else _no(f"{node} is read elsewhere")


def _untransposed(node: object) -> object:
    """Return what a transposition of a transposition is of."""
    while isinstance(node, fx.Node) and node.target is _aten.t.default:
        inner = node.args[0]
        if not isinstance(inner, fx.Node) or inner.target is not _aten.t.default:
            break
        node = inner.args[0]
    return node


class _Found:
    """A head as it lies in a graph."""

    def __init__(self, backward: fx.Node, seed: fx.Node) -> None:
        self.graph, self.seed, self.backward = backward.graph, seed, backward
        taken: Any = backward.args
        self.outer, softmax, self.target, weights, reduction, ignored, total = taken
        if weights is not None or reduction not in (_MEAN, _SUM):
            _no("its classes are weighted, or its losses not reduced")
        self.mean = reduction == _MEAN
        self.forward = _only(softmax, _aten.nll_loss_forward.default, among=3)
        logits, dim, half = softmax.args
        if (
            softmax.target is not _aten._log_softmax.default
            or half
            or dim not in (1, -1)
            or len(total.users) != 1
        ):
            _no("its loss is not of a softmax over the last dimension")
        assert isinstance(logits, fx.Node)
        scaled = _only(_only(softmax, _aten.exp.default, among=3), _aten.mul.Tensor)
        total_of = _only(backward, _aten.sum.dim_IntList, among=2)
        self.gradient = _only(backward, _aten.sub.Tensor, among=2)
        same = self.forward.args[1:] == taken[2:6] and total_of.args[1:] == ([1], True)
        if not same or self.gradient.args != (backward, scaled) or scaled.args[1] is not total_of:
            _no("the gradient of its logits is not that of a softmax")
        self.moves, self.product = self._moves_to(logits)
        self._read_product()
        if _value(logits).dim() != 2 or _value(self.x).dtype is not torch.float32:
            _no("its logits are not float32 in rows")
        self.head = Head(
            rows=_value(logits).shape[0], width=_value(self.x).shape[1], vocabulary=_value(logits).shape[1],
            bias=self.bias is not None, ignored=ignored,
        )  # fmt: skip
        self.products: list[tuple[fx.Node, str, list[fx.Node]]] = []
        self._follow(self.gradient, [])
        if sorted(kind for _, kind, _ in self.products) != sorted(("dx", "dw", *["db"] * self.head.bias)):
            _no("its gradients are not those of a linear layer")

    def _moves_to(self, logits: fx.Node) -> tuple[list[fx.Node], fx.Node]:
        """Return what lies between the layer's product and the loss, in order, and the product."""
        moves, node = list[fx.Node](), logits
        while node.target not in (_aten.mm.default, _aten.addmm.default):
            if len(node.users) != 1 or not self._moves_rows(node, _value(logits).shape[1]):
                _no(f"its logits pass {node.target}, or are read elsewhere")
            moves.append(node)
            node = node.all_input_nodes[0]
        if len(node.users) != 1:
            _no("its logits are read elsewhere")
        return moves[::-1], node

    def _moves_rows(self, node: fx.Node, width: int) -> bool:
        if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            return False
        shape = _value(node).shape
        if not shape or shape[-1] != width or _value(node.all_input_nodes[0]).shape[-1] != width:
            return False
        place = _SLICES.get(node.target)  # type: ignore[call-overload]  # any target
        whole = place is None or (len(node.args) > place and node.args[place] not in (len(shape) - 1, -1))
        return whole and (place is not None or node.target in _VIEWS)

    def _read_product(self) -> None:
        bias, x, across = (None, *self.product.args) if len(self.product.args) == 2 else self.product.args
        if (
            not isinstance(x, fx.Node)
            or not isinstance(across, fx.Node)
            or across.target is not _aten.t.default
        ):
            _no("its weight is not that of a linear layer")
        if self.product.kwargs or (bias is not None and _value(bias).dim() != 1):  # type: ignore[arg-type]  # of an addmm: a node
            _no("its bias is scaled, or no vector")
        self.bias, self.x, self.weight = bias, x, across.args[0]

    def _follow(self, node: fx.Node, moves: list[fx.Node]) -> None:
        """Find what the layer's gradients are made by, from the gradient of the logits on."""
        width = self.head.vocabulary
        for user in node.users:
            first, *rest = user.args
            if user.target is _aten.t.default and self._all_weight(user):
                self.products += [(one, "dw", moves) for one in user.users]
            elif user.target is _aten.mm.default and first is node and _untransposed(rest[0]) is self.weight:
                self.products.append((user, "dx", moves))
            elif user.target is _aten.sum.dim_IntList and rest[0] == [0] and _value(user).numel() == width:
                self.products.append((user, "db", moves))
            elif self._moves_rows(user, width):
                self._follow(user, [*moves, user])
            else:
                _no(f"the gradient of its logits is read by {user.target}")

    def _all_weight(self, across: fx.Node) -> bool:
        return all(u.target is _aten.mm.default and u.args == (across, self.x) for u in across.users)

    def cut(self) -> Cut:
        """Take the head out."""
        graph, head = self.graph, self.head
        with graph.inserting_before(self.forward):
            outer = self._constant(self.outer)
            kept = self._call(_aten.ne.Scalar, self.target, head.ignored)
            share = self._call(_aten._to_copy.default, kept, dtype=torch.float32)
            count = self._call(_aten.sum.default, share)
            if self.mean:
                share = self._call(_aten.div.Tensor, share, self._call(_aten.clamp_min.default, count, 1.0))
            share = self._call(_aten.mul.Tensor, share, outer)
            x = self._moved(self.x, self.moves)
        made = self._inputs()
        with graph.inserting_before(self.forward):
            loss = self._call(_aten.sum.default, made[0])
            loss = self._call(_aten.div.Tensor, loss, count) if self.mean else loss
        for user in self.forward.users:
            if user.args[1] == 0:
                user.replace_all_uses_with(loss)
        for node, kind, moves in self.products:
            with graph.inserting_before(node):
                if kind == "dx":
                    new = self._call(
                        _aten.reshape.default, self._moved(made[1], moves), list(_value(node).shape)
                    )
                else:
                    new = self._call(
                        _aten.reshape.default, made[2 if kind == "dw" else 3], list(_value(node).shape)
                    )
            node.replace_all_uses_with(new)
        bias = () if self.bias is None else (self.bias,)
        return Cut(head, (x, self.weight, self.target, *bias, share), made)  # type: ignore[arg-type]  # nodes, as read

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return self.graph.call_function(target, args, kwargs)

    def _constant(self, node: object) -> fx.Node:
        """Return the gradient of the head's loss, computed without the loss: gradients begin with one."""
        if node is self.seed:
            return self._call(_aten.full.default, [], 1.0)
        if not isinstance(node, fx.Node) or not node.all_input_nodes:
            _no("the gradient of its loss is no constant")
        known = {source: self._constant(source) for source in node.all_input_nodes}
        return self.graph.node_copy(node, known.__getitem__)

    def _moved(self, x: fx.Node, moves: list[fx.Node]) -> fx.Node:
        """Move rows of the layer's width as rows of logits are moved."""
        width = self.head.width
        for move in moves:
            if move.target is _aten.slice.Tensor:
                x = self._call(move.target, x, *move.args[1:])
            elif move.target is _aten.slice_backward.default:
                sizes: Any = move.args[1]
                x = self._call(move.target, x, [*sizes[:-1], width], *move.args[2:])
            else:
                x = self._call(_aten.reshape.default, x, [*_value(move).shape[:-1], width])
        return x

    def _inputs(self) -> tuple[fx.Node, ...]:
        last = self.graph.find_nodes(op="placeholder")[-1]
        made = list[fx.Node]()
        for number, shape in enumerate(self.head.shapes):
            with self.graph.inserting_after(made[-1] if made else last):
                made.append(self.graph.placeholder(f"head{number}"))
            made[-1].meta["val"] = torch.empty(shape, device="meta")
        return tuple(made)
