"""Capture → Timed: what each node takes inside the model, on the values that really occur there."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ._clock import Clock, HostClock, overhead_us
from ._target import Whole, unchanged
from .pieces import Capture

_LEAST_ROUNDS, _MOST_ROUNDS = 5, 60


@dataclass(frozen=True)
class Fact:
    """What one tensor was like in the captured call."""

    shape: tuple[int, ...]
    """Its sizes."""
    dtype: torch.dtype
    """Its dtype."""
    contiguous: bool
    """Whether its elements lie in order."""
    finite: bool
    """Whether all its values are finite."""
    rms: float
    """Root mean square; 0 where it is not of real numbers."""
    low: float
    """Smallest value; 0 for no elements."""
    high: float
    """Largest value."""
    views: str
    """The input, weight or result whose memory it shares; empty where it has its own."""


@dataclass(frozen=True)
class Timed:
    """Times of a graph inside one model."""

    nodes_us: dict[str, float]
    """Median microseconds of each node's call, without the timer's own time."""
    whole_us: float
    """Median microseconds of a call of the model as its owner calls it, in eager torch."""
    facts: dict[str, Fact]
    """What every tensor was like."""
    rounds: int
    """Calls behind the medians."""
    place: str = "cpu"
    """The device, as torch calls it."""

    def placed(self, text: str, name: str) -> str:
        """Return Python that a graph was printed as, with the device on which it was timed under this name.

        Graphs are captured on the processor, and name it where they make tensors.
        """
        return text if self.place == "cpu" else text.replace("torch.device('cpu')", name)

    def region_us(self, capture: Capture, start: int, stop: int) -> float:
        """Return the microseconds of the nodes from `start` up to `stop`."""
        return sum(self.nodes_us[n.name] for n in capture.nodes[start:stop])

    @property
    def total_us(self) -> float:
        """Microseconds of all nodes."""
        return sum(self.nodes_us.values())


def timed(
    capture: Capture, whole: Whole, *, seconds: float = 3.0, clock: Clock | None = None, place: str = "cpu"
) -> Timed:
    """Call the model as its owner does and then its graph node by node, in turns, and time both.

    Covers: caches as the nodes before leave them; the clock's own time, which is taken off; other work on the machine,
    which meets both alike.
    Does not cover: on a GPU, what overlaps; the time of Python code between operators, which is no node's.

    Args:
        capture: The graph with its inputs and weights.
        whole: The model, on the device; its buffers are as they were when this returns.
        seconds: About how long to time for; five rounds are made in any case.
        clock: Takes the time; on one thread of a busy machine, that of the processor.
        place: The device, as torch calls it.
    """
    clock = clock or HostClock()
    spent: dict[str, list[float]] = {n.name: [] for n in capture.nodes}
    wholes: list[float] = []
    facts: dict[str, Fact] = {}
    held = _held(capture, whole, place)
    with torch.no_grad(), torch.random.fork_rng(), unchanged(whole):
        _run(capture, held, lambda _, call: call(), facts)
        whole(*whole.tensors)
        clock.settle()
        overhead = overhead_us(clock)
        marks: list[tuple[str, Any, Any]] = []

        def clocked(node: fx.Node, call: Callable[[], Any]) -> Any:
            begun = clock.mark()
            result = call()
            marks.append((node.name, begun, clock.mark()))
            return result

        end = time.perf_counter() + seconds
        while len(wholes) < _LEAST_ROUNDS or (len(wholes) < _MOST_ROUNDS and time.perf_counter() < end):
            begun = clock.mark()
            whole(*whole.tensors)
            ended = clock.mark()
            _run(capture, held, clocked, None)
            clock.settle()
            wholes.append(clock.between_us(begun, ended))
            for name, first, last in marks:
                spent[name].append(clock.between_us(first, last))
            marks.clear()
    medians = {name: max(statistics.median(times) - overhead, 0.0) for name, times in spent.items()}
    return Timed(medians, statistics.median(wholes), facts, len(wholes), place)


def untimed(capture: Capture) -> Timed:
    """Run a graph once for what its tensors are like; no time is taken."""
    facts: dict[str, Fact] = {}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        _run(capture, {**capture.values, **capture.constants}, lambda _, call: call(), facts)
    return Timed({}, 0.0, facts, 0)


def _held(capture: Capture, whole: Whole, place: str) -> dict[str, torch.Tensor]:
    """Return what the graph reads, on the device: weights as the model there has them."""
    held = {**capture.values, **capture.constants}
    if place == "cpu":
        return held
    state = whole.state_dict(keep_vars=True)
    weights = {node: state[name].detach() for node, name in capture.weights.items() if name in state}
    return {name: weights.get(name, value).to(place) for name, value in held.items()}


def _run(
    capture: Capture, held: Mapping[str, torch.Tensor], each: Callable[[fx.Node, Callable[[], Any]], Any],
    facts: dict[str, Fact] | None,
) -> None:  # fmt: skip
    """Run every node, and drop values as soon as nothing reads them, as eager torch does."""
    lasting = {*capture.outputs, *(new for _, new in capture.mutations)}
    values: dict[str, Any] = dict(held)
    place = next((v.device for v in held.values()), torch.device("cpu"))
    owners = (
        {v.untyped_storage().data_ptr(): k for k, v in values.items() if v.numel()}
        if facts is not None
        else {}
    )
    if facts is not None:
        facts.update({name: _fact(value, "") for name, value in values.items()})
    last = _last_uses(capture, lasting)
    for node in capture.nodes:
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda n: values[n.name])
        kwargs = {k: place if isinstance(v, torch.device) else v for k, v in kwargs.items()}
        values[node.name] = each(node, lambda n=node, a=args, k=kwargs: n.target(*a, **k))  # type: ignore[misc]
        if facts is not None and isinstance(values[node.name], torch.Tensor):
            value = values[node.name]
            memory = value.untyped_storage().data_ptr()
            facts[node.name] = _fact(value, owners.get(memory, "") if value.numel() else "")
            owners[memory] = owners.get(memory, node.name)
        for name in last.get(node.name, ()) if facts is None else ():
            del values[name]


def _last_uses(capture: Capture, lasting: set[str]) -> dict[str, list[str]]:
    """Return which values nothing reads after a node."""
    last: dict[str, str] = {}
    made = {n.name for n in capture.nodes}
    for node in capture.nodes:
        last[node.name] = node.name
        last.update({source.name: node.name for source in node.all_input_nodes if source.name in made})
    found: dict[str, list[str]] = {}
    for name, node_name in last.items():
        if name not in lasting:
            found.setdefault(node_name, []).append(name)
    return found


def _fact(value: torch.Tensor, views: str) -> Fact:
    plain = value.detach().dequantize() if value.is_quantized else value.detach()
    real = plain.is_floating_point()
    wide = plain.to(torch.float32 if real else torch.int64) if not plain.is_complex() else plain.real
    empty = not value.numel()
    finite = bool(torch.isfinite(wide).all()) if real else True
    rms = float(wide.square().mean().sqrt()) if real and finite and not empty else 0.0
    low, high = (0.0, 0.0) if empty else (float(wide.min()), float(wide.max()))
    return Fact(tuple(value.shape), value.dtype, value.is_contiguous(), finite, rms, low, high, views)
