"""Program → lines that record its launches in a CUDA graph, for the weights that it has, and replay them in calls.

Launches of many short kernels from Python cost more than the kernels. The graph is recorded by `prepare`, anew where
weights are others; it reads weights where they lie, and inputs where calls copy them to.

Covers: calls on several streams and threads, which have the graph in turn; calls within a graph of the caller's own.
Does not cover: programs that change their arguments, sizes that vary, native regions that draw random numbers.
"""

from collections.abc import Sequence

from ...tile import Buffer, NativeCall, Program

LEAST = 4
"""Steps from which a program may be replayed."""
_RANDOM = ("rand", "bernoulli", "dropout", "normal_", "multinomial")


def is_replayable(program: Program) -> bool:
    """Tell whether a program may be replayed: long, of fixed sizes and own weights, with nothing changed or drawn."""
    natives = [s.name for s in program.steps if isinstance(s, NativeCall)]
    drawn = any(word in name for name in natives for word in _RANDOM)
    varies = program.symbols or program.scalars or program.updates or program.ahead
    return len(program.steps) >= LEAST and bool(program.weights) and not varies and not drawn


def replaying(entry: str, once: str, inputs: Sequence[Buffer]) -> list[str]:
    """Return the lines of `prepare`, and of `entry`, which replays what `once` launches."""
    held = ", ".join(f"torch.zeros({_shape(b)}, dtype=torch.{b.dtype}, device=device)" for b in inputs)
    names = ", ".join(b.name for b in inputs)
    return f"""


class Recorded:
    def __init__(self, weights):
        device = weights[0].device
        self.weights, self.lock, self.done = weights, threading.Lock(), torch.cuda.Event()
        self.held = [{held}]
        {once}(*self.held, *weights)  # compiles, and refuses what it does not serve
        torch.cuda.synchronize(device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.found = {once}(*self.held, *weights)

    def serves(self, *given):
        alike = all(
            x.shape == y.shape and x.dtype is y.dtype and x.device == y.device
            for x, y in zip(given, self.held, strict=True)
        )
        return alike and not torch.cuda.is_current_stream_capturing()

    def replayed(self, *given):
        with self.lock:
            self.done.wait()
            torch._foreach_copy_(self.held, given)
            self.graph.replay()
            several = isinstance(self.found, tuple)
            found = tuple(x.clone() for x in self.found) if several else self.found.clone()
            self.done.record()
        return found


def prepare(weights):
    weights = tuple(weights.values())
    here = weights[0].is_cuda and not torch.cuda.is_current_stream_capturing()
    return weights, Recorded(weights) if here else None


def {entry}({names}, packed):
    weights, recorded = packed
    if recorded is not None and recorded.serves({names}):
        return recorded.replayed({names})
    return {once}({names}, *weights)""".splitlines()


def _shape(buffer: Buffer) -> str:
    return f"({''.join(f'{int(size)}, ' for size in buffer.shape)})"
