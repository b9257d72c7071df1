"""Sizes that matter, with weights → what is worth changing in all calls together."""

from collections.abc import Sequence

from ..records import Record
from ._clock import clock_of
from ._device import device_of_models, moved
from ._plan import planned
from ._plan_records import Gain, Plan, PlannedRegion
from ._sizes import Sizes, eager_us_of, loaded_at, part_of
from ._target import ModelTarget, named_at


class SizedPart(Record):
    """A model's plan at one of several sizes."""

    sizes: dict[str, int]
    """The sizes, by name."""
    weight: float
    """Share of the calls."""
    plan: Plan
    """The plan at these sizes."""

    @property
    def name(self) -> str:
        """Readable name: `batch=1,seq=64`."""
        return Sizes(self.sizes, self.weight).name


class SizedRegion(Record):
    """What is called the same at several sizes, in the mean over all calls."""

    label: str
    """What it is called."""
    kind: str
    """`op`, `fused`, `block`, `chain` or `model`."""
    time_us: float
    """Microseconds of a call, in the mean."""
    share: float
    """Part of the mean time of a call."""
    gain: Gain
    """What changing it may save of a call, in the mean."""
    cost_s: float
    """Seconds to search it at all sizes where it is found."""
    sizes: tuple[str, ...]
    """Sizes at which it is in the set to try."""


class SizedPlan(Record):
    """What is worth changing in a model that is called at several sizes."""

    model: str
    """The model's name."""
    parts: tuple[SizedPart, ...]
    """Each workload with its plan."""
    seconds: float
    """Seconds that planning took."""

    @property
    def time_us(self) -> float:
        """Microseconds of a call in eager torch, in the mean over all calls."""
        return sum(part.weight * part.plan.time_us for part in self.parts)

    @property
    def regions(self) -> tuple[SizedRegion, ...]:
        """The whole and its regions at all sizes, from the largest expected gain to the least."""
        groups: dict[tuple[str, str], list[tuple[SizedPart, PlannedRegion]]] = {}
        for part in self.parts:
            plan = part.plan
            for row in (*((plan.whole,) if plan.whole else ()), *plan.regions):
                groups.setdefault((row.label, row.kind), []).append((part, row))
        found = (self._region(*key, rows) for key, rows in groups.items())
        return tuple(sorted(found, key=lambda r: -r.gain.expected))

    def speedups(self, *, whole: bool) -> tuple[float, float, float]:
        """Return the expected speedup of all calls together over eager torch, as one program or by regions."""
        after = [part.plan.expected_of_whole if whole else part.plan.expected for part in self.parts]
        low, expected, high = (
            self.time_us
            / sum(p.weight * p.plan.time_us / a[end] for p, a in zip(self.parts, after, strict=True))
            for end in range(3)
        )
        return low, expected, high

    def _region(self, label: str, kind: str, rows: Sequence[tuple[SizedPart, PlannedRegion]]) -> SizedRegion:
        time_us = sum(part.weight * row.time_us for part, row in rows)
        low, expected, high = (
            sum(part.weight * getattr(row.gain, end) for part, row in rows)
            for end in ("low", "expected", "high")
        )
        return SizedRegion(
            label=label, kind=kind, time_us=time_us, share=min(time_us / self.time_us, 1.0),
            gain=Gain(low=low, expected=expected, high=high), cost_s=sum(row.cost_s for _, row in rows),
            sizes=tuple(dict.fromkeys(part.name for part, row in rows if row.chosen)),
        )  # fmt: skip


def plan_sizes(
    target: ModelTarget, sizes: Sequence[Sizes], *, device: str | None = None, minutes: float = 10.0
) -> SizedPlan:
    """Plan a model at the sizes that matter, and weigh its regions by the calls at each.

    Args:
        target: `file.py:build` or a function; it takes the sizes by name and returns `(module, inputs)`.
        sizes: The sizes with their weights, at least two.
        device: `cpu`, the default, or `cuda`, `cuda:N`.
        minutes: The budget for all of them, of which each gets its part of the weighted time.

    Raises:
        InputError: fewer than two sizes, or the same twice.
        TaskError: the function does not take these sizes, or makes other weights at some.
    """
    used, loaded = device_of_models(device), loaded_at(target, sizes)
    total = sum(one.weight for one in sizes)
    spent = [
        one.weight * eager_us_of(moved(model, used.torch_device), clock=clock_of(used))
        for one, model in zip(sizes, loaded, strict=True)
    ]
    parts, left = list[SizedPart](), minutes
    for place, (one, model) in enumerate(zip(sizes, loaded, strict=True)):
        own = left * part_of(spent[place:])
        left -= own
        plan = planned(model, device=used, minutes=own).plan
        parts.append(SizedPart(sizes=one.sizes, weight=one.weight / total, plan=plan))
    name = loaded[0].name.removesuffix(named_at("", sizes[0].sizes))
    return SizedPlan(model=name, parts=tuple(parts), seconds=sum(part.plan.seconds for part in parts))
