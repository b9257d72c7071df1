"""Size: an integer with the rule that derives it from the sizes of the arguments."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any


class Size(int):
    """A size that differs between workloads: its value on the first one, and the rule for the others.

    Arithmetic keeps the rule. Two sizes are `same` if they agree on every workload seen; the integer
    itself is only the size on the first, so never compare two sizes by `==` to find out whether they mean
    the same axis.

    Example:
        >>> rows = Size("rows", (8, 3))
        >>> double = rows * 2
        >>> int(double), double.text, double.values
        (16, '(rows * 2)', (16, 6))
    """

    text: str
    """Integer arithmetic over the symbols, as Python prints it (`//` divides)."""
    values: tuple[int, ...]
    """Its value on every workload seen, the first one first."""
    guard: str = ""
    """What must hold for the rule to be valid: that a division leaves no remainder."""

    def __new__(cls, text: str, values: Sequence[int]) -> "Size":
        made = super().__new__(cls, values[0])
        made.text, made.values = text, tuple(values)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.text, self.values

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __add__(self, other: int) -> int:
        return _combine("+", lambda a, b: a + b, self, other)

    def __radd__(self, other: int) -> int:
        return _combine("+", lambda a, b: a + b, other, self)

    def __sub__(self, other: int) -> int:
        return _combine("-", lambda a, b: a - b, self, other)

    def __rsub__(self, other: int) -> int:
        return _combine("-", lambda a, b: a - b, other, self)

    def __mul__(self, other: int) -> int:
        return _combine("*", lambda a, b: a * b, self, other)

    def __rmul__(self, other: int) -> int:
        return _combine("*", lambda a, b: a * b, other, self)

    def __floordiv__(self, other: int) -> int:
        return _combine("//", lambda a, b: a // b, self, other)


def text_of(size: int) -> str:
    """Print a size: its rule, or the number if it is the same on every workload."""
    return size.text if isinstance(size, Size) else str(int(size))


def values_of(size: int, count: int) -> tuple[int, ...]:
    """Return a size on each of `count` workloads."""
    return size.values if isinstance(size, Size) else (int(size),) * count


def parts(whole: int, of: int) -> tuple[int, str]:
    """Divide a size into parts that are `of` long, and return what must hold for none to be left; empty if none is.

    Where it does not hold the number of parts is a fraction, so that as many parts of that length are the size again.

    Example:
        >>> count, guard = parts(Size("n", (64, 40)), 16)
        >>> int(count), guard, same(count * 16, Size("n", (64, 40))), parts(64, 16)
        (4, 'n % 16 == 0', True, (4, ''))
    """
    if not isinstance(whole, Size):
        return whole // of, ""
    values = [v // of if v % of == 0 else Fraction(v, of) for v in whole.values]
    return Size(f"({whole.text} // {of})", values), f"{whole.text} % {of} == 0"  # type: ignore[arg-type]  # fractions where the guard declines


def same(a: int, b: int) -> bool:
    """Whether two sizes agree on every workload seen.

    Example:
        >>> same(Size("rows", (8, 3)), Size("cols", (8, 5))), same(8, 8), same(Size("rows", (8, 3)), 8)
        (False, True, False)
    """
    count = max(len(s.values) if isinstance(s, Size) else 1 for s in (a, b))
    return values_of(a, count) == values_of(b, count)


def product(sizes: Sequence[int]) -> int:
    """Multiply sizes, keeping the rule; 1 for none."""
    found: int = 1
    for size in sizes:
        found = found * size
    return found


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to: a size that is one on every workload gives way.

    Example:
        >>> broadcast([(Size("rows", (1, 8)), 1), (5,)])
        (rows, 5)
    """
    rank = max(map(len, shapes), default=0)
    wide = [(1,) * (rank - len(s)) + tuple(s) for s in shapes]
    return tuple(next((s for s in sizes if not _is(s, 1)), 1) for sizes in zip(*wide, strict=True))


def _combine(sign: str, function: Callable[[int, int], int], a: int, b: int) -> int:
    if sign == "*" and (_is(a, 1) or _is(b, 1)):
        return b if _is(a, 1) else a
    if (sign in "+-" and _is(b, 0)) or (sign == "//" and _is(b, 1)):
        return a
    count = max(len(s.values) if isinstance(s, Size) else 1 for s in (a, b))
    pairs = zip(values_of(a, count), values_of(b, count), strict=True)
    values = [function(x, y) for x, y in pairs]
    if len(set(values)) == 1 and sign in ("-", "//"):
        return values[0]
    return Size(f"({text_of(a)} {sign} {text_of(b)})", values)


def _is(size: int, value: int) -> bool:
    return not isinstance(size, Size) and size == value


def fit(values: Sequence[int], symbols: Mapping[str, Sequence[int]]) -> int | None:
    """Find how a size follows from the symbols, from its values on several workloads; None if it does not.

    The simplest rule that holds on all of them is taken: a symbol, a multiple of one less or more a
    constant, a quotient, a product of two or three, or `(a + b) // c` as convolutions have it.

    Example:
        >>> symbols = {"n": (8, 13, 21), "d": (4, 7, 10)}
        >>> fit((32, 91, 210), symbols), fit((3, 6, 10), symbols), fit((5, 5, 5), symbols)
        ((n * d), ((n + -1) // 2), 5)
    """
    if len(set(values)) == 1:
        return values[0]
    for name, known in symbols.items():
        if tuple(known) == tuple(values):
            return Size(name, known)
    for rule in (_affine, _quotient, _products, _strided):
        found = rule(values, symbols)
        if found is not None and values_of(found, len(values)) == tuple(values):
            return found
    return None


def _each(symbols: Mapping[str, Sequence[int]]) -> list[Size]:
    return [Size(name, known) for name, known in symbols.items() if len(set(known)) > 1]


def _affine(values: Sequence[int], symbols: Mapping[str, Sequence[int]]) -> int | None:
    """Fit `s * times + more`."""
    for s in _each(symbols):
        k, v = next((k, v) for k, v in zip(s.values, values, strict=True) if k != s.values[0])
        times = (v - values[0]) // (k - s.values[0])
        if times and len(gaps := {v - k * times for v, k in zip(values, s.values, strict=True)}) == 1:
            return s * times + gaps.pop()
    return None


def _quotient(values: Sequence[int], symbols: Mapping[str, Sequence[int]]) -> int | None:
    for s in _each(symbols):
        if values[0] and s.values[0] % values[0] == 0:
            by = s.values[0] // values[0]
            if all(k == v * by for v, k in zip(values, s.values, strict=True)):
                return _exactly(s, by)
    return None


def _products(values: Sequence[int], symbols: Mapping[str, Sequence[int]]) -> int | None:
    known = _each(symbols)
    for count in (2, 3):
        for chosen in combinations_with_replacement(known, count):
            whole = product(chosen)
            of = values_of(whole, len(values))
            if of == tuple(values):
                return whole
            if of[0] and values[0] % of[0] == 0:
                times = values[0] // of[0]
                if all(v == o * times for v, o in zip(values, of, strict=True)):
                    return whole * times
            if values[0] and of[0] % values[0] == 0:
                by = of[0] // values[0]
                if all(o == v * by for v, o in zip(values, of, strict=True)):
                    return _exactly(whole, by)
    return None


def _exactly(whole: int, by: int) -> int:
    """Divide, and require no remainder: whether other sizes round up or down is unknown."""
    found = whole // by
    if isinstance(found, Size):
        found.guard = f"{text_of(whole)} % {by} == 0"
    return found


_MOST_STRIDE = 16


def _strided(values: Sequence[int], symbols: Mapping[str, Sequence[int]]) -> int | None:
    """Fit `(s + shift) // stride` for strides up to 16; if several fit, a guard requires them to agree."""
    fitting: list[int] = []
    for s in _each(symbols) if min(values) >= 0 else ():
        for stride in range(2, _MOST_STRIDE + 1):
            gaps = [v * stride - k for v, k in zip(values, s.values, strict=True)]
            low, high = max(gaps), min(gaps) + stride - 1
            if low <= high:
                fitting += [(s + shift) // stride for shift in dict.fromkeys((low, high))]
    found = fitting[0] if fitting else None
    if isinstance(found, Size):
        found.guard = " and ".join(f"{text_of(other)} == {found.text}" for other in fitting[1:])
    return found
