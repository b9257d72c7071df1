"""Traces with known answers: launches, queues, idle causes, chains, regions, and files that are none."""

import gzip
import json
import math
from pathlib import Path

import pytest

from kernelwright.cli import main
from kernelwright.errors import InputError
from kernelwright.profile.trace import (
    IdleCause,
    Region,
    analyse,
    chains_of,
    link,
    read_events,
    read_trace,
    transition,
)

DATA = Path(__file__).parents[1] / "data"


def event(cat, name, start, duration, *, tid=1, **args):
    pid = 0 if cat in {"kernel", "gpu_memcpy"} else 9
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": start,
        "dur": duration,
        "args": args,
    }


def launch(number, at, *, duration=5, name="cudaLaunchKernel", tid=1):
    return event("cuda_runtime", name, at, duration, tid=tid, correlation=number)


def kernel(number, at, duration, *, name="k", stream=7, cat="kernel"):
    return event(cat, name, at, duration, tid=stream, stream=stream, device=0, correlation=number)


@pytest.fixture
def traced(tmp_path):
    """Write events as a trace, and read it back."""

    def write(*events, packed=False):
        path = tmp_path / ("t.json.gz" if packed else "t.json")
        text = json.dumps({"schemaVersion": 1, "traceEvents": list(events), "traceName": "t"})
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        return read_trace(path)

    return write


@pytest.mark.parametrize("packed", [True, False])
def test_launch_and_queue_times_sum_to_tklqt(traced, packed):
    trace = traced(
        event("cpu_op", "aten::mm", 0, 40),
        launch(1, 0), kernel(1, 10, 100, name="gemm"),
        launch(2, 20), kernel(2, 110, 10, name="add"),
        packed=packed,
    )  # fmt: skip
    device = analyse(trace).device
    assert device.tklqt_us == (10 - 0) + (110 - 20)
    assert {u.name: (u.launch_us, u.queue_us) for u in device.uses} == {"gemm": (5, 5), "add": (5, 85)}
    assert device.mean_kernel_us == 55
    assert device.span_us == device.busy_us == 110


def test_a_kernel_without_a_launch_is_said_and_not_in_tklqt(traced):
    device = analyse(traced(launch(1, 0), kernel(1, 10, 1), kernel(99, 50, 1))).device
    assert (device.unlinked, device.tklqt_us, device.kernels) == (1, 10, 2)
    assert device.idle[IdleCause.UNKNOWN] == 39


def test_a_graph_counts_up_to_its_first_kernel(traced):
    device = analyse(
        traced(launch(1, 0, name="cudaGraphLaunch"), *(kernel(1, at, 10) for at in (20, 30, 40, 50)))
    ).device
    assert (device.tklqt_us, device.graphs, device.kernels) == (20, 1, 4)
    assert device.chains[0].saved_host_us == 0


def test_overlapping_streams_are_busy_once(traced):
    device = analyse(
        traced(launch(1, 0), launch(2, 6), kernel(1, 10, 100, stream=7), kernel(2, 50, 100, stream=8))
    ).device
    assert (device.span_us, device.busy_us) == (140, 140)


def test_a_clock_that_runs_behind_counts_as_nothing_and_is_said(traced):
    device = analyse(traced(launch(1, 100), kernel(1, 90, 5))).device
    assert (device.backwards, device.tklqt_us) == (1, 0)


def test_a_reused_correlation_means_the_last_launch_before(traced):
    linked = link(traced(launch(1, 0), kernel(1, 10, 1), launch(1, 100), kernel(1, 120, 1)))
    assert [one.delay_us for one in linked] == [10, 20]


def test_idle_time_has_a_cause(traced):
    trace = traced(
        launch(1, 0), kernel(1, 10, 10),
        event("cuda_runtime", "cudaDeviceSynchronize", 6, 24, correlation=50),
        event("cuda_runtime", "cudaMalloc", 40, 30, correlation=51),
        launch(2, 100), kernel(2, 110, 10),
        launch(3, 111), kernel(3, 125, 10),
        launch(4, 117, name="cudaLaunchKernelExC"), kernel(4, 235, 10),
    )  # fmt: skip
    idle = analyse(trace).device.idle
    assert idle == {
        IdleCause.HOST_WAITS: 10,
        IdleCause.HOST_MEMORY: 30,
        IdleCause.HOST_WORK: 40,
        IdleCause.LAUNCH: 10 + 5,
        IdleCause.DEPENDENCY: 100,
        IdleCause.UNKNOWN: 0,
    }


def test_kernels_belong_to_the_innermost_operator_of_their_thread(traced):
    trace = traced(
        event("cpu_op", "aten::linear", 0, 100), event("cpu_op", "aten::addmm", 10, 40), launch(1, 20), launch(2, 60),
        event("cpu_op", "aten::other_thread", 15, 30, tid=2),
        kernel(1, 30, 7, name="gemm"), kernel(2, 70, 9, name="bias"),
    )  # fmt: skip
    uses = {u.name: (u.self_us, u.device_us, u.kernels) for u in analyse(trace).operators}
    assert uses == {
        "aten::linear": (60, 9, (("bias",),)),
        "aten::addmm": (40, 7, (("gemm",),)),
        "aten::other_thread": (30, 0, ()),
    }


def row(words, *, gap=1.0, every=10.0):
    """Kernels of these names on one stream, launched in time, some microseconds apart."""
    for number, word in enumerate(words):
        yield launch(number, number * every, duration=2)
        yield kernel(number, 1000 + number * (5 + gap), 5, name=word)


def test_a_planted_chain_is_found_with_what_fusing_saves(traced):
    words = [*"xabcyabczabcqabc"]
    (chain,) = chains_of(link(traced(*row(words))))
    assert (chain.kernels, chain.count, chain.proximity) == (("a", "b", "c"), 4, 1.0)
    assert (chain.saved_launches, chain.saved_host_us, chain.saved_gap_us) == (8, 16.0, 8.0)


def test_a_chain_that_its_first_kernel_often_leaves_has_less_proximity(traced):
    (chain,) = chains_of(link(traced(*row([*"abxacyabzad"]))))
    assert (chain.kernels, chain.count, chain.proximity) == (("a", "b"), 2, 0.5)


@pytest.mark.parametrize(("words", "expected"), [("abcabcabcabc", "abc"), ("aaaaa", "aa"), ("abcdefg", "")])
def test_a_loop_is_one_chain(traced, words, expected):
    assert ["".join(c.kernels) for c in chains_of(link(traced(*row([*words]))))] == (
        [expected] if expected else []
    )


def cpu_then_gpu(slow, fast):
    """Launches first far apart and then close together, each kernel of 20 us."""
    at, busy, events = 0.0, 0.0, []
    for number in range(slow + fast):
        at += 100 if number < slow else 6
        start = max(at + 8, busy)
        busy = start + 20
        events += [launch(number, at), kernel(number, start, 20)]
    return events


def test_regions_and_the_place_where_they_change(traced):
    assert analyse(traced(*cpu_then_gpu(20, 0))).region is Region.CPU_BOUND
    assert analyse(traced(*cpu_then_gpu(0, 20))).region is Region.GPU_BOUND
    change = analyse(traced(*cpu_then_gpu(20, 30))).device.change
    assert (change.before, change.after) == (Region.CPU_BOUND, Region.GPU_BOUND)
    assert abs(change.kernel - 20) <= 1
    assert analyse(traced(*cpu_then_gpu(20, 0))).device.change is None


@pytest.mark.parametrize("knee", [4, 16])
def test_the_knee_of_a_sweep_lies_within_its_limits(knee):
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]
    noise = [1.02, 0.99, 1.01, 0.98, 1.0, 1.02, 0.99, 1.01]
    found = transition(sizes, [100 * max(1, s / knee) * n for s, n in zip(sizes, noise, strict=True)])
    assert found.low <= knee <= found.high
    assert found.high / found.low < 2
    assert found.flat_us == pytest.approx(100, rel=0.05)


def test_a_flat_sweep_has_no_knee():
    assert math.isinf(transition([1, 2, 4, 8, 16], [10.0, 10.2, 9.9, 10.1, 9.8]).size)


def test_sweeps_that_cannot_be_fitted_are_refused():
    for sizes, figures in (([1, 2], [1, 2]), ([4, 2, 1, 8], [1, 1, 1, 1]), ([1, 2, 4, 8], [1, 0, 1, 2])):
        with pytest.raises(InputError, match="expected"):
            transition(sizes, figures)


def test_a_list_of_events_is_a_trace_too(tmp_path):
    path = tmp_path / "list.json"
    path.write_text(json.dumps([event("cpu_op", "aten::add", 0, 3)]))
    assert [span.name for span in read_trace(path).operators] == ["aten::add"]


def test_a_large_file_is_read_event_by_event(tmp_path):
    path = tmp_path / "large.json"
    ballast = {"stack": "x" * 3_000_000, "deviceProperties": [{"name": "GPU"}]}
    text = json.dumps({**ballast, "traceEvents": [event("cpu_op", f"op{n}", n, 1) for n in range(20_000)]})
    path.write_text(text + "\n")
    assert sum(1 for _ in read_events(path)) == 20_000
    trace = read_trace(path)
    assert (len(trace.operators), trace.devices) == (20_000, ("GPU",))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "ends early"),
        (b"not json", "stands where"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name"', "ends early"),
        (b'{"schemaVersion": 1}', "no traceEvents"),
        (b'{"traceEvents": []}', "no operators and no kernels"),
        (b'{"traceEvents": [7]}', "an event is int"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"}]}', "ts 'soon'"),
        (b"\xff\xfe\x00", "not text"),
        (gzip.compress(b'{"traceEvents": [' + b" " * 100_000, mtime=0)[:60], "broken gzip"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path, capsys, content, words):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_trace(path)
    assert main(["trace", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and words in said


def test_no_file_and_a_folder_are_refused(tmp_path, capsys):
    assert main(["trace"]) == main(["trace", str(tmp_path)]) == main(["trace", str(tmp_path / "no")]) == 2
    assert "no trace was given" in capsys.readouterr().err


def test_a_trace_of_the_cpu_alone_says_what_has_no_figure(capsys):
    assert main(["trace", str(DATA / "cpu-only.json.gz")]) == 0
    said = capsys.readouterr().out
    assert "nothing ran on a device" in said and "aten::empty" in said
    report = analyse(read_trace(DATA / "cpu-only.json.gz"))
    assert (report.region, report.device) == (Region.NO_DEVICE, None)


def test_the_command_prints_each_record_and_a_sweep(tmp_path, capsys):
    files = []
    for size in (1, 2, 4, 8, 16):
        files.append(str(tmp_path / f"{size}.json"))
        events = [launch(0, 0), kernel(0, 10 * max(1, size / 4), 5)]
        Path(files[-1]).write_text(json.dumps({"traceEvents": events}))
    assert main(["trace", *files, "--sizes", "1", "2", "4", "8", "16", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["trace"] * 5 + ["result"]
    assert lines[0]["device"]["tklqt_us"] == 10
    assert lines[-1]["transition"]["size"] == pytest.approx(4, rel=0.1)
    assert main(["trace", files[0], "--sizes", "1", "2"]) == 2


def test_names_of_hip_are_linked():
    device = analyse(read_trace(DATA / "mi250-minitoy-train.json.gz")).device
    assert (device.kernels, device.unlinked) == (14, 0)
