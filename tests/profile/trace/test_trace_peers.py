"""The same figures as HolisticTraceAnalysis, on recorded traces, wherever both define them."""

import gzip
import json
import logging
import warnings
from collections import Counter
from pathlib import Path

import pytest
from tests.tools import require

from kernelwright.profile.trace import Kind, analyse, link, read_trace

require("hta")

DATA = Path(__file__).parents[1] / "data"
CUDA = ["alexnet", "simple-add", "event-sync-multi-stream"]
TRACES = [*CUDA, "mi250-minitoy-train"]
"""It takes the operator around a Triton kernel for the kernel, so `triton-example` is not compared."""
WAITS = {"cuda_sync"}
"""What HolisticTraceAnalysis counts as computing though the stream waits."""


class Peer:
    """Both readings of one trace, waits on streams left out."""

    def __init__(self, name, folder):
        with gzip.open(DATA / f"{name}.json.gz", "rt") as file:
            content = json.load(file)
        content["traceEvents"] = [e for e in content["traceEvents"] if e.get("cat") not in WAITS]
        content.setdefault("distributedInfo", {"rank": 0})
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.disable(logging.CRITICAL)
            from hta.trace_analysis import TraceAnalysis

            self.analysis = TraceAnalysis(trace_files={0: str(path)})
            logging.disable(logging.NOTSET)
        self.trace = read_trace(path)
        self.report = analyse(self.trace)
        self.linked = link(self.trace)


@pytest.fixture(scope="module")
def peers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    return {name: Peer(name, folder) for name in TRACES}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def whole_us(peer):
    """It cuts fractions of microseconds off every start and duration."""
    return 0 if peer.trace.device[0].start_us.is_integer() else 2.0 * len(peer.trace.device)


@pytest.mark.parametrize("name", TRACES)
def test_busy_computing_and_idle_time(peers, name):
    peer, device = peers[name], peers[name].report.device
    theirs = peer.analysis.get_temporal_breakdown(visualize=False).iloc[0]
    near = whole_us(peer)
    assert device.span_us == pytest.approx(theirs["kernel_time(us)"], abs=near)
    assert device.compute_us == pytest.approx(theirs["compute_time(us)"], abs=near)
    assert device.span_us - device.busy_us == pytest.approx(theirs["idle_time(us)"], abs=near)
    assert sum(device.idle.values()) == pytest.approx(device.span_us - device.busy_us)


@pytest.mark.parametrize("name", TRACES)
def test_gaps_of_each_stream_by_cause(peers, name):
    peer = peers[name]
    theirs = peer.analysis.get_idle_time_breakdown(visualize=False)[0]
    rows = {(str(r.stream), r.idle_category): r.idle_time for r in theirs.itertuples()}
    for mine in peer.report.device.streams:
        for cause, us in (
            ("host_wait", mine.host_wait_us), ("kernel_wait", mine.kernel_wait_us), ("other", mine.other_us)
        ):  # fmt: skip
            assert us == pytest.approx(rows.get((mine.stream, cause), 0), abs=whole_us(peer))


@pytest.mark.parametrize("name", TRACES)
def test_time_of_each_kernel(peers, name):
    peer = peers[name]
    theirs = peer.analysis.get_gpu_kernel_breakdown(
        visualize=False, include_memory_kernels=True, num_kernels=10_000, duration_ratio=1.0
    )[1]
    sums = dict(zip(theirs["name"], theirs["sum (us)"], strict=True))
    assert sums.keys() == {u.name for u in peer.report.device.uses}
    for use in peer.report.device.uses:
        assert use.time_us == pytest.approx(sums[use.name], abs=2.0 * use.calls if whole_us(peer) else 0)


@pytest.mark.parametrize("name", CUDA)
@pytest.mark.parametrize("copies", [True, False])
def test_launch_and_queue_time_of_each_kernel(peers, name, copies):
    peer = peers[name]
    stats = peer.analysis.get_cuda_kernel_launch_stats(include_memory_events=copies, visualize=False)[0]
    theirs = Counter(
        zip(
            stats["correlation"],
            stats["cpu_duration"],
            stats["gpu_duration"],
            stats["launch_delay"],
            strict=True,
        )
    )
    mine = Counter(
        (one.span.correlation, one.launch.duration_us, one.span.duration_us, one.queue_us)
        for one in peer.linked
        if copies or one.span.kind is Kind.KERNEL
    )
    assert mine == theirs


@pytest.mark.parametrize("name", CUDA)
def test_which_operator_launches_which_kernels(peers, name, monkeypatch):
    from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis

    monkeypatch.setattr(CudaKernelAnalysis, "visualize_aten_op_kernels_and_overhead", lambda *_: None)
    rows = CudaKernelAnalysis.get_aten_op_kernels_and_delay(peers[name].analysis.t, ranks=[0])[0]
    theirs = {(r.aten_op_name, r.kernel_sequence): r.occurrence_count for r in rows.itertuples()}
    groups = {}
    for one in peers[name].linked:
        if "LaunchKernel" in one.launch.name:  # it leaves out copies
            groups.setdefault(id(one.operator), []).append(one)
    ordered = [sorted(g, key=lambda one: one.launch.start_us) for g in groups.values()]
    mine = Counter((g[0].operator.name, " -> ".join(one.span.name for one in g)) for g in ordered)
    assert mine == theirs
