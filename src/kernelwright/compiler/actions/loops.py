"""Loop actions: one per loop attribute of a kernel, at `kernel.axis`.

They come last: the other actions change which kernels there are. A move that its kernel no longer allows makes
the schedule unlowerable, so a step that is replayed elsewhere is either done or refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..tile import Move, What, places
from ._state import State


@dataclass(frozen=True)
class OnLoops:
    """A change of the loops of one kernel; `tile` knows where each is legal and how it is done."""

    name: What
    does: str
    """What it changes, why, and where it is legal."""

    def sites(self, state: State) -> Iterator[str]:
        """Yield `kernel.axis`, or `kernel.buffer`, or `kernel.value`, or `kernel.size`."""
        if state.program is not None:
            yield from (f"{kernel}.{at}" for kernel, at in places(state.program, self.name))

    def apply(self, state: State, site: str) -> State:
        """Record the move."""
        kernel, _, at = site.partition(".")
        moves = (*state.decisions.moves, Move(self.name, kernel, at))
        return replace(state, decisions=replace(state.decisions, moves=moves))


PLACING = (
    OnLoops("strip", """Multiply the rows that a softmax, norm, sum or extremum is about to read, a strip of them at a
        time: the product stays in a worker's cache, and is never written to memory. Legal behind a product in tiles
        that stores nothing else, where every iteration of the only outer loop reads its own row of it, and a row (or
        an item of a batch) fits a second-level cache; of a convolution that copies its image, whose results of one
        image are small. The bytes of a strip are the tuner's."""),
    OnLoops("stream", """Write an output past the caches: no line of it is read before it is written, a third of a
        copy's traffic. Legal for float32 outputs that a last-level cache does not hold, stored side by side in lanes
        and read by no kernel. From how many bytes on is for the tuner; smaller calls write through the caches."""),
    OnLoops("stage", """Copy what padded windows read into a worker's cache, padding included, and fold the windows over
        the copy: no window asks whether an element is there, and what was fused before is computed once an element.
        Legal in the innermost loop that holds all that the windows move over, for traversals and for products of one
        filter a channel, where they read each element twice at least and the copy fits a second-level cache."""),
    OnLoops("keep", """Keep a row of values in a worker's cache over the passes that need it, instead of computing it in
        each: a softmax saves one exponential of two. Legal where later passes over the same row name the same costly
        value, and the row fits a second-level cache."""),
    OnLoops("overwrite", """Keep a row of values in the result, where the last pass over the row writes over each: a
        softmax of a long row saves one exponential of two, and reads the row from memory once less. Legal for rows that
        are too long to be kept beside it, where the last pass needs the value and stores a float32 result of the same
        places, which nothing else writes or reads."""),
    OnLoops("rescale", """Find the largest value and the sum of exponentials of a long row block by block, each relative
        to the block's largest, and scale what was kept of a block by one factor: the row is read from memory once less.
        Legal where one pass only finds the largest of a value, and the next only sums its exponentials. Elements of a
        block are the tuner's."""),
)  # fmt: skip
"""Where values are kept between the loops that write and read them."""
LOOPING = (
    OnLoops("tile", """Run two nested loops in square tiles, so that lines read across are used whole before they leave
        the cache. Legal where one loop is all of the other's body and neither waits for its iterations. The side is
        the tuner's."""),
    OnLoops("parallelise", """Give threads this loop, and none around or within it; what it folds is joined at its end.
        Legal where iterations wait for nothing, and the loop is in no lanes."""),
    OnLoops("reorder", """Exchange a loop and the one that is all of its body; threads and lanes stay at their depth.
        Legal where neither waits for its iterations."""),
    OnLoops("cut", """Run a loop in blocks: threads take whole ones. The size is the tuner's; the last block may be
        shorter. Legal where iterations wait for nothing."""),
    OnLoops("vectorise", """Run this loop in lanes, and none around or within it; the width is the machine's. Legal
        where nothing around it waits for its iterations, and no loop within is over threads."""),
    OnLoops("unroll", """Keep more vectors of a fold in flight, each with an accumulator of its own. How many is the
        tuner's. Legal for loops over lanes that fold into what was begun outside."""),
    OnLoops("feed", """Compute what a product of the library reads a panel of rows at a time, each right before the
        library multiplies it: the panel is still in the cache then, and memory holds no more of it. Legal behind
        `library`, for a product whose rows are a size of the call (or items of rows, as in a batch of products), where
        the kernel before it writes nothing else and takes row by row, or item by item. Every panel costs two calls, so
        it pays where the product has few columns. The bytes of a panel are the tuner's."""),
    OnLoops("specialise", """Compile a kernel for one size too, that of the first workload: the compiler knows how often
        its loops run, so that a whole number of vectors has no tail and a short row is unrolled. The launch tests the
        size, and takes the general version where it is another. Legal at sizes that differ between calls, in kernels
        that run in every call; worth it for short rows."""),
    OnLoops("whole", """Compile a kernel for whole vectors too: where a size is a multiple of 16, loops in lanes have
        no tail. The launch tests the size, and takes the general version elsewhere; so one version serves many sizes.
        Legal where that holds on the first workload, and lanes run over the size, alone or times others."""),
)  # fmt: skip
"""Loop order, threads and lanes, and sizes compiled for."""
MOVES = (*PLACING, *LOOPING)
"""Loop actions; the cost estimate only sees where values are kept."""
