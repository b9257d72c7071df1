"""Index arithmetic of views: which element of the source an element of the view is."""

from collections.abc import Mapping, Sequence

from ..graph import Expand, Pad, Permute, Reshape, Size, Slice, Window, product, same, text_of, values_of
from ..tile import Arith, Call, Expression, Extent, Guard, Literal, Position, arith, number

Index = tuple[Expression, ...]
Digit = tuple[Expression, int]
PARTS = "abcdefgh"
"""Names of the parts of an axis that is cut."""


class NeedsSplit(Exception):
    """A loop must run as several: a view cuts its axis."""

    def __init__(self, axis: str, outer: int, inner: int) -> None:
        super().__init__(axis)
        self.axis, self.outer, self.inner = axis, outer, inner

    def cuts(self, splits: dict[str, list[int]]) -> bool:
        """Cut the axis, further if it is a part of one that is cut; tell whether letters were left for its parts."""
        base, _, letter = self.axis.rpartition("_")
        if base not in splits or letter not in tuple(PARTS):
            splits[self.axis] = [self.outer, self.inner]
            return True
        parts, place = splits[base], PARTS.index(letter)
        parts[place : place + 1] = [parts[place] // self.inner, self.inner]
        return len(parts) <= len(PARTS)


def through_reshape(node: Reshape, index: Index, axes: Mapping[str, int]) -> Index:
    """Find the source's index under a reshape.

    Dimensions are matched in groups of equal products; within a group the view's index is taken apart into
    digits, which are distributed to the source's dimensions. A loop whose digit is cut raises `NeedsSplit`, if it
    runs over the whole digit and not over a slice.
    """
    found: list[Expression] = []
    for source, view in _groups(node.source.shape, node.shape):
        if len(source) == 1 and len(view) == 1:
            found.append(index[view[0]])
            continue
        digits = [d for at in view for d in digits_of(index[at], node.shape[at], axes)]
        found += _deal(digits, [node.source.shape[at] for at in source], axes)
    return tuple(found)


def _groups(source: Sequence[int], view: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Match runs of dimensions with equal products, shortest first; what is left is one group."""
    groups = []
    i = j = 0
    while i < len(source) or j < len(view):
        one, two = [i] if i < len(source) else [], [j] if j < len(view) else []
        i, j = i + len(one), j + len(two)
        while not _equal(one, source, two, view) and (i < len(source) or j < len(view)):
            left = product([source[k] for k in one])
            right = product([view[k] for k in two])
            if (int(left) <= int(right) and i < len(source)) or j >= len(view):
                one.append(i)
                i += 1
            else:
                two.append(j)
                j += 1
        groups.append((one, two))
    return groups


def _equal(one: Sequence[int], source: Sequence[int], two: Sequence[int], view: Sequence[int]) -> bool:
    return same(product([source[k] for k in one]), product([view[k] for k in two]))


def digits_of(expression: Expression, size: int, axes: Mapping[str, int]) -> list[Digit]:
    """Split an index below `size` if it was composed as `high * inner + low`."""
    if isinstance(expression, Arith) and expression.sign == "+" and isinstance(expression.left, Arith):
        times, low = expression.left, expression.right
        inner = _size_of(times.right) if times.sign == "*" else None
        if inner is not None and _below(low, inner, axes) and _divides(inner, size):
            return [*digits_of(times.left, size // inner, axes), *digits_of(low, inner, axes)]
    return [(expression, size)]


def _divides(inner: int, size: int) -> bool:
    """Whether nothing is left on any workload seen."""
    count = max(len(s.values) if isinstance(s, Size) else 1 for s in (inner, size))
    pairs = zip(values_of(inner, count), values_of(size, count), strict=True)
    return all(i and s % i == 0 for i, s in pairs)


def _size_of(expression: Expression) -> int | None:
    match expression:
        case Extent(size):
            return size
        case Literal(int() as value, "int64"):
            return value
        case _:
            return None


def _below(expression: Expression, size: int, axes: Mapping[str, int]) -> bool:
    """Whether an index is known to be below a size."""
    match expression:
        case Position(axis):
            return axis in axes and same(axes[axis], size)
        case Literal(value):
            return value == 0
        case Arith("+", Arith("*", high, inner_expression), low):
            inner = _size_of(inner_expression)
            known = inner is not None and _below(low, inner, axes) and _divides(inner, size)
            return known and inner is not None and _below(high, size // inner, axes)
        case _:
            return False


def _deal(digits: list[Digit], sizes: Sequence[int], axes: Mapping[str, int]) -> list[Expression]:
    """Distribute digits to dimensions, from the last; digits that fit no boundary fall back on `//` and `%`."""
    digits = [d for d in digits if not _is_one(d[1])]
    found: list[Expression] = []
    for place in range(len(sizes) - 1, -1, -1):
        size, taken = sizes[place], list[Digit]()
        while not same(product([s for _, s in taken]), size) and digits:
            have = product([s for _, s in taken])
            expression, extent = digits[-1]
            if int(have) * int(extent) <= int(size) or not isinstance(expression, Position):
                if int(have) * int(extent) > int(size):
                    return _divided([*digits, *taken], sizes[: place + 1]) + found
                taken.insert(0, digits.pop())
                continue
            inner = size // have
            if same(axes.get(expression.axis, 0), extent) and _divides(inner, extent):
                raise NeedsSplit(expression.axis, extent // inner, inner)
            return _divided([*digits, *taken], sizes[: place + 1]) + found
        if not same(product([s for _, s in taken]), size):
            return _divided([*digits, *taken], sizes[: place + 1]) + found
        found.insert(0, joined(taken))
    return found


def _is_one(size: int) -> bool:
    return not isinstance(size, Size) and size == 1


def joined(digits: Sequence[Digit]) -> Expression:
    """Compose digits: `(a * size_b + b) * size_c + c`."""
    found: Expression = number(0)
    for expression, size in digits:
        found = arith("+", arith("*", found, number(size)), expression)
    return found


def counts(at: Expression, axes: Sequence[tuple[str, int]]) -> bool:
    """Tell whether an index counts through axes, the last fastest, whatever rules their sizes follow.

    Example:
        >>> heads, groups = Size("heads", (8, 12)), Size("(heads // 4)", (2, 3))
        >>> i, j, k = map(Position, "ijk")
        >>> at = joined([(i, 2), (joined([(j, groups), (k, 4)]), heads)])
        >>> counts(at, [("i", 2), ("j", groups), ("k", 4)]), counts(at, [("i", 2), ("k", 4), ("j", groups)])
        (True, False)
    """
    found, step = _steps(at), 1
    if found is None:
        return False
    for axis, size in reversed(axes):
        if (size != 1 or isinstance(size, Size)) and not same(found.pop(axis, 0), step):
            return False
        found.pop(axis, None)
        step = step * size
    return all(same(left, 0) for left in found.values())


def _steps(at: Expression) -> dict[str, int] | None:
    """Return by how much an index grows per step of each axis, its start as that of no name; none if not constant."""
    match at:
        case Position(axis):
            return {axis: 1}
        case Literal(int(value)) | Extent(value):
            return {"": value}
        case Arith("+", left, right):
            one, two = _steps(left), _steps(right)
            return (
                None if one is None or two is None else {a: one.get(a, 0) + two.get(a, 0) for a in one | two}
            )
        case Arith("*", left, right):
            one, two = _steps(left), _steps(right)
            if one is None or two is None:
                return None
            one, two = (one, two) if two.keys() == {""} else (two, one)
            return {a: step * two[""] for a, step in one.items()} if two.keys() == {""} else None
    return None


def _divided(digits: Sequence[Digit], sizes: Sequence[int]) -> list[Expression]:
    flat = joined(digits)
    found: list[Expression] = []
    for place, size in reversed(list(enumerate(sizes))):
        found.insert(0, flat if place == 0 else arith("%", flat, number(size)))
        flat = arith("//", flat, number(size))
    return found


def through_permute(node: Permute, index: Index) -> Index:
    """Find the source's index under a permutation."""
    return tuple(index[node.order.index(d)] for d in range(len(index)))


def through_expand(node: Expand, index: Index) -> Index:
    """Find the source's index under a broadcast."""
    return broadcast(index, node.source.shape, node.shape)


def broadcast(index: Index, source: Sequence[int], shape: Sequence[int]) -> Index:
    """Drop leading dimensions, and use zero if the source's size is one and the result's is not."""
    lead = len(shape) - len(source)
    return tuple(
        number(0) if _is_one(size) and not _is_one(shape[lead + d]) else index[lead + d]
        for d, size in enumerate(source)
    )


def through_slice(node: Slice, index: Index) -> Index:
    """Find the source's index under a slice."""
    found = []
    for at, start, step in zip(index, node.starts, node.steps, strict=True):
        if step < 0:
            found.append(arith("-", number(start), arith("*", at, number(-step))))
        else:
            found.append(arith("+", arith("*", at, number(step)), number(start)))
    return tuple(found)


def through_window(node: Window, index: Index) -> Index:
    """Find the source's index under sliding windows."""
    rank = len(index) - len(node.dims)
    found = list(index[:rank])
    for i, d in enumerate(node.dims):
        moved = arith("*", found[d], number(node.strides[i]))
        within = arith("*", index[rank + i], number(node.dilations[i]))
        found[d] = arith("+", moved, within)
    return tuple(found)


def through_pad(node: Pad, index: Index) -> tuple[Index, list[Expression]]:
    """Find the source's index under padding, and the conditions under which there is one."""
    found, conditions = list[Expression](), list[Expression]()
    for at, low, have, size in zip(index, node.low, node.source.shape, node.shape, strict=True):
        inside = arith("-", at, number(low)) if low >= 0 else arith("+", at, number(-low))
        found.append(inside)
        if low > 0:
            conditions.append(compare("ge", inside, number(0)))
        if (
            text_of(low + have) != text_of(size)
            and not same(low + have, size)
            and int(low + have) < int(size)
        ):
            conditions.append(compare("lt", inside, number(have)))
    return tuple(found), conditions


def compare(op: str, left: Expression, right: Expression) -> Expression:
    """Compare two positions."""
    return Call(op, (left, right), (), "bool")


def guarded(conditions: Sequence[Expression], value: Expression, other: Expression) -> Expression:
    """Choose the value where all conditions hold."""
    if not conditions:
        return value
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = Call("logical_and", (whole, condition), (), "bool")
    return Guard(whole, value, other, value.kind)
