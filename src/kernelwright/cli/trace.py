"""`kernelwright trace`: what a recorded trace shows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._common import Common, Positive, print_json, table, time_text

if TYPE_CHECKING:
    from ..profile.trace import DeviceUse, TraceReport, Transition


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
            _print(report)
    if common.json:
        print_json("result", transition=knee.model_dump(mode="json") if knee else None)
    elif knee:
        print(_knee_text(knee))
    return 0


def _print(report: "TraceReport") -> None:
    device = report.device
    if device is None:
        print(
            f"{report.trace}: nothing ran on a device, so launches, queues, idle time and chains have no figures"
        )
    else:
        print(f"{report.trace}: {report.region}, the host sets the pace {device.host_share:.0%} of the time")
        _print_device(device)
    rows = [
        {
            "operator": use.name,
            "calls": str(use.calls),
            "on the host": _us(use.self_us),
            "on the device": _us(use.device_us),
            "kernels": "; ".join(" > ".join(_short(k) for k in s) for s in use.kernels[:2]),
        }
        for use in report.operators[:10]
    ]
    table(rows, empty="no operators")


def _print_device(device: "DeviceUse") -> None:
    print(
        f"  TKLQT {_us(device.tklqt_us)} over {device.kernels} kernels of {_us(device.mean_kernel_us)} on average; "
        f"busy {_us(device.busy_us)} of {_us(device.span_us)}, computing {_us(device.compute_us)}"
    )
    causes = [
        f"{cause} {_us(us)}" for cause, us in sorted(device.idle.items(), key=lambda c: -c[1]) if us > 0
    ]
    print(f"  idle: {', '.join(causes) or 'never'}")
    if device.change:
        where = f" in {device.change.operator}" if device.change.operator else ""
        print(
            f"  from {device.change.before} to {device.change.after} {_us(device.change.at_us)} after the first "
            f"launch, at kernel {device.change.kernel}{where}"
        )
    for number, what in (
        (device.unlinked, "without a launch in the trace, not in TKLQT"),
        (device.graphs, "launches of CUDA graphs; each counts once, up to its first kernel"),
        (device.backwards, "kernels start before their launch by the trace's clocks and count as 0"),
    ):
        if number:
            print(f"  note: {number} {what}")
    rows = [
        {
            "kernel": _short(use.name),
            "calls": str(use.calls),
            "time": _us(use.time_us),
            "launch": _us(use.launch_us),
            "queue": _us(use.queue_us),
        }
        for use in device.uses[:10]
    ]
    table(rows, empty="no kernels")
    rows = [
        {
            "chain": " > ".join(_short(k) for k in chain.kernels),
            "runs": str(chain.count),
            "of its first kernel's": f"{chain.proximity:.0%}",
            "fused saves": f"{chain.saved_launches} launches, {_us(chain.saved_host_us)} of the host, "
            f"{_us(chain.saved_gap_us)} of gaps",
        }
        for chain in device.chains[:5]
    ]
    table(rows, empty="no kernels follow each other twice")


def _knee_text(knee: "Transition") -> str:
    if knee.size == float("inf"):
        return f"CPU-bound at every size: TKLQT stays at {_us(knee.flat_us)}"
    return f"CPU-bound up to size {knee.size:.3g} ({knee.low:.3g} to {knee.high:.3g}), GPU-bound above"


def _us(time_us: float) -> str:
    return time_text(time_us) if time_us else "0"


def _short(name: str) -> str:
    """Shorten a kernel's name: no template arguments, no parameters, no namespaces.

    Example:
        >>> _short("void at::native::(anonymous namespace)::fill<float, 4>(float*, int)")
        'fill'
    """
    if name.startswith("Mem"):
        return name
    kept, depth = [], 0
    for character in name.replace("(anonymous namespace)::", "").replace("->", ""):
        depth += (character in "<(") - (character in ">)")
        if not depth and character not in ">)":
            kept.append(character)
    last = "".join(kept).split(" ")[-1].rpartition("::")[2] or name
    return last if len(last) <= 50 else f"{last[:47]}..."
