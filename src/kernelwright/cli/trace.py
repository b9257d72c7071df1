"""`kernelwright trace`: what a recorded trace shows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._common import Common, Positive, print_json
from ._traced import print_report, us_text

if TYPE_CHECKING:
    from ..profile.trace import Transition


def trace(
    *files: Path,
    sizes: Annotated[tuple[Positive, ...], Parameter(consume_multiple=True)] = (),
    common: Common | None = None,
) -> int:
    """Say what a recorded trace shows: launches, queues, idle time and its causes, chains of kernels worth fusing.

    Args:
        files: Traces that torch.profiler exported, `.json` or `.json.gz`; several are a sweep over sizes.
        sizes: Size of each file of a sweep, such as its batch size, rising; says where CPU-bound ends.
        common: Flags of every command.
    """
    from ..errors import InputError
    from ..profile.trace import analyse, read_trace, transition

    common = common or Common()
    if not files:
        raise InputError(
            "no trace was given; expected a file that torch.profiler exported, .json or .json.gz"
        )
    if sizes and len(sizes) != len(files):
        raise InputError(f"{len(sizes)} sizes were given for {len(files)} traces; expected one for each")
    reports = [analyse(read_trace(file)) for file in files]
    knee = None
    if sizes:
        without = [r.trace for r in reports if r.device is None]
        if without:
            raise InputError(f"{without[0]!r} has nothing on a device; a sweep needs kernels in every trace")
        knee = transition(sizes, [r.device.tklqt_us for r in reports if r.device])
    for report in reports:
        if common.json:
            print_json("trace", **report.model_dump(mode="json"))
        else:
            print_report(report)
    if common.json:
        print_json("result", transition=knee.model_dump(mode="json") if knee else None)
    elif knee:
        print(_knee_text(knee))
    return 0


def _knee_text(knee: "Transition") -> str:
    if knee.size == float("inf"):
        return f"CPU-bound at every size: TKLQT stays at {us_text(knee.flat_us)}"
    return f"CPU-bound up to size {knee.size:.3g} ({knee.low:.3g} to {knee.high:.3g}), GPU-bound above"
