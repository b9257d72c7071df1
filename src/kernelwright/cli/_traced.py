"""What a trace shows, for people: `trace`, `plan --trace`, `profile --trace`."""

from typing import TYPE_CHECKING

from ._common import table, time_text

if TYPE_CHECKING:
    from ..profile.trace import DeviceUse, TraceReport


def print_report(report: "TraceReport") -> None:
    """Print who sets the pace, launches, idle time, chains of kernels, and operators."""
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
            "on the host": us_text(use.self_us),
            "on the device": us_text(use.device_us),
            "kernels": "; ".join(" > ".join(short_name(k) for k in s) for s in use.kernels[:2]),
        }
        for use in report.operators[:10]
    ]
    table(rows, empty="no operators")


def _print_device(device: "DeviceUse") -> None:
    print(
        f"  TKLQT {us_text(device.tklqt_us)} over {device.kernels} kernels of {us_text(device.mean_kernel_us)} on "
        f"average; busy {us_text(device.busy_us)} of {us_text(device.span_us)}, computing {us_text(device.compute_us)}"
    )
    causes = [
        f"{cause} {us_text(us)}" for cause, us in sorted(device.idle.items(), key=lambda c: -c[1]) if us > 0
    ]
    print(f"  idle: {', '.join(causes) or 'never'}")
    if device.change:
        where = f"in {device.change.operator}, " if device.change.operator else ""
        print(
            f"  counted by kernels instead, {device.change.before} before kernel {device.change.kernel} and "
            f"{device.change.after} from it on ({where}{us_text(device.change.at_us)} after the first launch)"
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
            "kernel": short_name(use.name),
            "calls": str(use.calls),
            "time": us_text(use.time_us),
            "launch": us_text(use.launch_us),
            "queue": us_text(use.queue_us),
        }
        for use in device.uses[:10]
    ]
    table(rows, empty="no kernels")
    rows = [
        {
            "chain": " > ".join(short_name(k) for k in chain.kernels),
            "runs": str(chain.count),
            "of its first kernel's": f"{chain.proximity:.0%}",
            "fused saves": f"{chain.saved_launches} launches, {us_text(chain.saved_host_us)} of the host, "
            f"{us_text(chain.saved_gap_us)} of gaps",
        }
        for chain in device.chains[:5]
    ]
    table(rows, empty="no kernels follow each other twice")


def us_text(time_us: float) -> str:
    """Format microseconds, of which there may be none."""
    return time_text(time_us) if time_us else "0"


def short_name(name: str) -> str:
    """Shorten a kernel's name: no template arguments, no parameters, no namespaces.

    Example:
        >>> short_name("void at::native::(anonymous namespace)::fill<float, 4>(float*, int)")
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
