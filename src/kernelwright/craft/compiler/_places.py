"""Where arrays are: in memory, and in the scratchpad whole or a row at a time."""

from collections.abc import Mapping, Sequence

from ...errors import InputError
from .._description import Description
from ..expression import Array, Size, measure
from ._writer import Writer


class Places:
    """Registers with addresses and sizes, and addresses in the scratchpad."""

    def __init__(
        self, arrays: Sequence[Array], most: Mapping[str, int], description: Description, *, resident: bool
    ) -> None:
        self.arrays = {a.name: a for a in arrays}
        """Arrays by name."""
        self.resident = resident
        """Whether arrays stay in the scratchpad."""
        self._most, self._d = dict(most), description
        outside = [a for a in arrays if a.role != "temp"]
        self._bases = {a.name: n for n, a in enumerate(outside)}
        self._work = len(outside)
        self._sizes = {name: self._work + 1 + n for n, name in enumerate(most)}
        self.arguments = self._work + 1 + len(most)
        """Scalar registers that hold something at the start."""
        self._next = 0
        self._at = {a.name: self._reserve(self._span(a)) for a in arrays} if resident else {}
        self._row_buffers: dict[str, int] = {}
        self._work_at, at = {}, 0
        for a in arrays:
            if a.role == "temp":
                self._work_at[a.name] = at
                at += measure(a.rows, most) * measure(a.cols, most)
        self.one = self.zero = -1
        """Registers with 1 and 0 word, in address units, and `count` with 1."""
        self.count = -1

    def begin(self, w: Writer) -> None:
        """Prepare registers, and bring inputs in if they stay."""
        self.count = w.li(1)
        self.zero = w.li(0)
        self.one = self.count if w.d.unit == 1 else w.li(w.d.unit)
        for a in self.arrays.values():
            for wanted in (a.rows, a.cols):
                self._size_register(w, wanted)
        w.op("dstride", q=0, a=self.zero, b=self.zero)
        if self.resident:
            self._move(w, "in")

    def end(self, w: Writer) -> None:
        """Take outputs back if they were kept."""
        if self.resident:
            self._move(w, "out")

    def size(self, wanted: Size) -> int:
        """Return the register that holds a size."""
        return self.count if wanted == 1 else self._sizes[str(wanted)]

    def largest(self, wanted: Size) -> int:
        """Return the largest value of a size."""
        return measure(wanted, self._most)

    def start(self, name: str) -> int:
        """Return where a resident array starts, in words."""
        return self._at[name]

    def stride(self, w: Writer, name: str) -> int:
        """Take a register with the distance of an array's rows in the scratchpad, in address units."""
        array, words = self.arrays[name], w.take("s")
        if array.rows == 1:
            w.op("li", d=words, i=0)
            return words
        w.op("rup", d=words, a=self.size(array.cols), i=self._d.align)
        scaled = w.scaled(words)
        w.give("s", words)
        return scaled

    def address(self, w: Writer, name: str) -> int:
        """Take a register with the address of an array in memory."""
        register = w.take("s")
        if name in self._bases:
            w.move(register, self._bases[name])
        else:
            w.move(register, self._work, self._work_at[name] * self._d.unit)
        return register

    def buffer(self, key: str, words: int) -> int:
        """Return where a buffer of so many words is in the scratchpad; the same for the same key and length."""
        key = f"{key} of {words}"
        if key not in self._row_buffers:
            self._row_buffers[key] = self._reserve(words)
        return self._row_buffers[key]

    def whole(self, key: str, rows: Size, cols: Size) -> int:
        """Return where a buffer for an array is, rows aligned."""
        return self.buffer(key, self.largest(rows) * self._padded(self.largest(cols)))

    def _move(self, w: Writer, role: str) -> None:
        """Move whole arrays between memory and scratchpad, over all queues in turn, and wait."""
        queues, used = self._d.count("q"), set()
        for number, a in enumerate(a for a in self.arrays.values() if a.role == role):
            queue = number % queues
            near, at = self.stride(w, a.name), w.li(self.start(a.name) * self._d.unit)
            far = w.scaled(self.size(a.cols))
            w.op("dshape", q=queue, a=self.size(a.rows), b=self.size(a.cols))
            w.op("dstride", q=queue, a=far, b=near)
            w.op("din" if role == "in" else "dout", q=queue, a=at, b=self._bases[a.name])
            w.give("s", near, far, at)
            used.add(queue)
        for queue in sorted(used):
            w.wait_all(queue)
        w.op("dstride", q=0, a=self.zero, b=self.zero)

    def _size_register(self, w: Writer, wanted: Size) -> None:
        if wanted == 1 or str(wanted) in self._sizes:
            return
        if isinstance(wanted, int):
            self._sizes[str(wanted)] = w.li(wanted)
            return
        name, _, more = wanted.partition("+")
        register = w.take("s")
        w.move(register, self._sizes[name], int(more))
        self._sizes[wanted] = register

    def _span(self, a: Array) -> int:
        return self.largest(a.rows) * self._padded(self.largest(a.cols))

    def _padded(self, words: int) -> int:
        return -(-words // self._d.align) * self._d.align

    def _reserve(self, words: int) -> int:
        at, self._next = self._next, self._next + self._padded(words)
        if self._next > self._d.scratch_words:
            raise InputError(
                f"the arrays take {self._next} words and the scratchpad has {self._d.scratch_words}; "
                "choose a plan that keeps fewer there"
            )
        return at
