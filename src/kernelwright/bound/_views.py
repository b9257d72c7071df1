"""Operations that hold, or read, a part of what goes in: views, slices, gathers."""

from ..tasks.capture import Node

VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "view.default", "_unsafe_view.default", "permute.default", "expand.default", "unsqueeze.default",
        "squeeze.dims", "squeeze.dim", "clone.default", "alias.default", "unflatten.int",
    )
)  # fmt: skip
"""Ops whose result holds the same values as their first argument."""

WINDOWS = frozenset({"aten.slice.Tensor", "aten.select.int"})
PARTS = frozenset({"aten.diagonal.default", "aten.as_strided.default", "aten.unfold.default"})
ROWS = {"aten.embedding.default": (0, 1), "aten.index_select.default": (0, 2), "aten.gather.default": (0, 2)}
"""Ops that read only the indexed rows, with the positions of the table and of the indices."""
GATHERS = frozenset({*ROWS, "aten.index.Tensor"})
"""Ops that read what indices select."""


def covered(node: Node, windows: list[Node]) -> float:
    """Return the share of a result under the union of slices; those along different axes count as the largest."""
    hits: dict[int, set[int]] = {}
    for user in windows:
        given = user.arguments()
        axis = as_int(given["dim"]) % len(node.shape)
        length = node.shape[axis]
        if user.op == "aten.select.int":
            hit = {as_int(given["index"]) % length}
        else:
            end = length if given["end"] is None else as_int(given["end"])
            hit = set(range(*slice(as_int(given["start"] or 0), end, as_int(given["step"])).indices(length)))
        hits.setdefault(axis, set()).update(hit)
    return max((len(hit) / node.shape[axis] for axis, hit in hits.items() if node.shape[axis]), default=0.0)


def as_int(value: object) -> int:
    """Return an argument that is an integer."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} stands where the graph must have an integer")
    return value
