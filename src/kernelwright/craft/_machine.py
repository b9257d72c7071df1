"""The accelerator's state, and what each instruction does to it; bit-exact, in float32."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._description import Description
from ._memory import Fault, Memory, Transfer

Handler = Callable[["Machine", dict[str, Any]], int | None]
"""Does what an instruction does; returns the place of the next instruction if that is not the following one."""
_MOST_ROWS = 4096
_MOST_WORDS = 1 << 20


class Machine:
    """Registers, memories and settings while a program runs."""

    def __init__(self, description: Description, memory: Memory, arguments: list[int]) -> None:
        d = description
        self.description = d
        """The instruction set."""
        self.memory = memory
        """Both memories."""
        self.s: list[int | None] = [None] * d.count("s")
        """Scalar registers; None where nothing was written."""
        self.s[: len(arguments)] = arguments
        self.v = np.zeros((d.count("v"), d.lanes), np.float32)
        """Vector registers."""
        self.lanes_ok = [0] * d.count("v")
        """How many first lanes of each vector register were written."""
        self.m = np.zeros((d.count("m"), d.tile, d.tile), np.float32)
        """Tile registers."""
        self.tile_ok = [False] * d.count("m")
        """Whether a tile register was written."""
        self.multiplying: set[int] = set()
        """Tile registers to which products are being added."""
        self.vl = d.lanes
        """The vector length."""
        self.shape: tuple[int, int] | None = None
        """Rows and columns that tile loads and stores move."""
        self.shapes: list[tuple[int, int] | None] = [None] * d.count("q")
        """Rows and words of each queue's transfers."""
        self.strides: list[tuple[int, int] | None] = [None] * d.count("q")
        """How far apart rows of each queue's transfers are."""
        self.finished: tuple[int, int] = (0, 0)
        """The queue of the last wait, and how many transfers it waited for."""

    def scalar(self, number: int) -> int:
        """Read a scalar register."""
        value = self.s[number]
        if value is None:
            raise Fault(
                "uninitialised", f"scalar register {self.description.register('s', number)} was never written"
            )
        return value

    def set_scalar(self, number: int, value: int) -> None:
        """Write a scalar register, in 32 bits with sign."""
        self.s[number] = (value + 0x80000000) % 0x100000000 - 0x80000000

    def vector(self, number: int, count: int | None = None) -> NDArray[np.float32]:
        """Read the lanes of a vector register up to the vector length."""
        count = self.vl if count is None else count
        if self.lanes_ok[number] < count:
            raise Fault(
                "uninitialised",
                f"lane {self.lanes_ok[number]} of vector register {self.description.register('v', number)} "
                "was never written",
            )
        row: NDArray[np.float32] = self.v[number, :count]
        return row

    def set_vector(self, number: int, values: Any) -> None:
        """Write the lanes of a vector register up to the vector length; a number goes to all."""
        count = self.vl
        self.v[number, :count] = values
        if self.description.semantics.tail == "zero":
            self.v[number, count:] = 0
            self.lanes_ok[number] = self.description.lanes
        elif self.lanes_ok[number] < count:
            self.lanes_ok[number] = count

    def set_reduced(self, number: int, value: np.float32) -> None:
        """Write the result of a reduction to all lanes, or the first."""
        if self.description.semantics.reduce == "all":
            self.set_vector(number, value)
            return
        self.v[number, 0] = value
        if self.description.semantics.tail == "zero":
            self.v[number, 1:] = 0
            self.lanes_ok[number] = self.description.lanes
        self.lanes_ok[number] = max(1, self.lanes_ok[number])

    def tile(self, number: int, *, adding: bool = False) -> NDArray[np.float32]:
        """Read a tile register; one that is being added to must have been waited for, unless more is added to it."""
        name = self.description.register("m", number)
        if not self.tile_ok[number]:
            raise Fault("uninitialised", f"tile register {name} was never written")
        if number in self.multiplying and not adding:
            wait = self.description.by_kind["mwait"].name
            raise Fault(
                "matrix", f"tile register {name} is used while products are being added; {wait} first"
            )
        found: NDArray[np.float32] = self.m[number]
        return found

    def set_tile(self, number: int, values: Any) -> None:
        """Write a tile register."""
        if number in self.multiplying:
            name, wait = self.description.register("m", number), self.description.by_kind["mwait"].name
            raise Fault(
                "matrix", f"tile register {name} is written while products are being added; {wait} first"
            )
        self.m[number] = values
        self.tile_ok[number] = True

    def words(self, value: int, what: str) -> int:
        """Turn an address or stride into words."""
        whole, rest = divmod(value, self.description.unit)
        if rest:
            raise Fault("align", f"{what} {value} is no multiple of {self.description.unit}")
        return whole

    def address(self, number: int) -> int:
        """Read an address from a scalar register, in words."""
        return self.words(self.scalar(number), "address")

    def aligned(self, number: int) -> int:
        """Read an aligned address of the scratchpad from a scalar register, in words."""
        at = self.address(number)
        if at % self.description.align:
            raise Fault(
                "align",
                f"scratchpad address {self.scalar(number)} is not aligned: it must be a multiple of "
                f"{self.description.align * self.description.unit}",
            )
        return at

    def tile_rows(self, x: dict[str, Any]) -> tuple[int, int, list[int]]:
        """Return rows, columns and the first word of each row that a tile load or store moves."""
        if self.shape is None:
            raise Fault("uninitialised", f"{self.description.by_kind['mshape'].name} has set no shape yet")
        rows, columns = self.shape
        at, stride = self.aligned(x["a"]), self.words(self.scalar(x["s"]), "stride")
        if stride % self.description.align and rows > 1:
            raise Fault("align", f"stride of {stride} words is not aligned: rows would not be either")
        return rows, columns, [at + i * stride for i in range(rows)]

    def plan(self, x: dict[str, Any], *, inward: bool) -> Transfer:
        """Return the transfer that an instruction starts."""
        queue = x["q"]
        shape, stride = self.shapes[queue], self.strides[queue]
        if shape is None or stride is None:
            name = self.description.by_kind["dshape" if shape is None else "dstride"].name
            raise Fault("uninitialised", f"{name} has set nothing for this queue yet")
        (rows, words), (far, near) = shape, stride
        scratch, memory = self.address(x["a"]), self.address(x["b"])
        return Transfer(
            inward,
            tuple((scratch + i * near, scratch + i * near + words) for i in range(rows)),
            tuple((memory + i * far, memory + i * far + words) for i in range(rows)),
        )

    def set_queue_shape(self, queue: int, rows: int, words: int) -> None:
        """Set what later transfers of a queue move."""
        if not (1 <= rows <= _MOST_ROWS and 1 <= words <= _MOST_WORDS):
            raise Fault("value", f"a transfer of {rows} rows of {words} words; expected at least 1 of each")
        self.shapes[queue] = (rows, words)

    def set_shape(self, rows: int, columns: int) -> None:
        """Set what tile loads and stores move."""
        most = self.description.tile
        if not (1 <= rows <= most and 1 <= columns <= most):
            raise Fault("value", f"a tile of {rows} rows of {columns} words; expected 1 to {most} of each")
        self.shape = (rows, columns)

    def wait(self, queue: int, count: int) -> None:
        """Wait for transfers of a queue, as this instruction set counts them."""
        under_way = len(self.memory.pending[queue])
        if self.description.semantics.wait == "left":
            done = max(0, under_way - count)
        else:
            done = under_way if count == 0 else min(count, under_way)
        self.memory.finish(queue, done)
        self.finished = (queue, done)
