"""Scores that compare a time with its bound."""

from ..devices import Device

_SLACK = 0.10
"""A time this much below the bound is still accepted: peaks are measured to a few per cent."""
_SHARED_SLACK = 0.50
"""The same on a virtual machine, whose share of the memory bandwidth changes from second to second: on
one of two cores the best rate of a session was seen at half of the best rate minutes later."""


def slack_of(device: Device) -> float:
    """Return how far below the bound a time may be, as a share of it, before it is flagged.

    Example:
        >>> slack_of(Device(kind="cpu", name="bare", cores=8, memory_bytes=1, torch_device="cpu"))
        0.1
    """
    return _SHARED_SLACK if device.facts.get("hypervisor") else _SLACK


def sol_score(time_us: float, baseline_us: float, bound_us: float) -> float:
    """Place a time between the baseline (0.5) and the speed of light (1): `1 / (1 + (t-s) / (b-s))`.

    A baseline at or below the bound leaves no room: then 1 if the time is there too, else 0. A time
    below the bound counts as at the bound.

    Source: NVIDIA, SOL-ExecBench (arXiv 2603.19173), the score's definition.

    Example:
        >>> sol_score(20.0, 20.0, 10.0), sol_score(10.0, 20.0, 10.0), sol_score(5.0, 5.0, 10.0)
        (0.5, 1.0, 1.0)
    """
    if baseline_us <= bound_us:
        return 1.0 if time_us <= bound_us else 0.0
    return 1 / (1 + max(0.0, time_us - bound_us) / (baseline_us - bound_us))


def headroom(time_us: float, bound_us: float) -> float:
    """Return how many times faster the device could be, at most; 1 if the time is at the bound.

    Example:
        >>> headroom(30.0, 10.0), headroom(30.0, 0.0)
        (3.0, inf)
    """
    return max(1.0, time_us / bound_us) if bound_us > 0 else float("inf")
