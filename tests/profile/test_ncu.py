"""Nsight Compute: its table in all its forms, and a stand-in that speaks it in front of a real worker."""

import sys

import pytest

from kernelwright.devices import Device
from kernelwright.errors import ProfilerError
from kernelwright.languages import get_language
from kernelwright.profile import Counting
from kernelwright.profile.tools import Ncu
from kernelwright.profile.tools.ncu import METRICS, read, summed
from kernelwright.tasks import Problem, load_task

GPU = Device(kind="cuda", name="any", cores=1, memory_bytes=1, torch_device="cuda:0")
CPU = GPU.model_copy(update={"kind": "cpu", "torch_device": "cpu"})
HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
TIME, DRAM = "gpu__time_duration.sum", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
LOCAL = "l1tex__t_bytes_pipe_lsu_mem_local_op_{}.sum"
LIMIT, STALL = "launch__occupancy_limit_{}", "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def row(launch, kernel, metric, unit, value):
    return (
        f'"{launch}","41","python","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0",'
        f'"Command line profiler metrics","{metric}","{unit}","{value}"'
    )


def printed(*rows):
    before = [
        "==PROF== Connected to process 41 (/usr/bin/python)",
        "==PROF== Profiling: 0%....100% - 9 passes",
    ]
    return "\n".join([*before, HEADER, *(row(*r) for r in rows), "==PROF== Disconnected from process 41"])


def counted(*rows):
    return summed(read(printed(*rows)))


@pytest.mark.parametrize(
    ("unit", "value", "us"),
    [("ns", "2,500", 2.5), ("usecond", "2.5", 2.5), ("ms", "0,25", 250.0), ("nsecond", "1.500.000", 1500.0)],
)
def test_times_are_microseconds_whatever_the_unit_and_the_locale(unit, value, us):
    assert counted((0, "k", TIME, unit, value))[0] == {"gpu_us": pytest.approx(us)}


def test_bytes_of_spills_add_up():
    rows = [(0, "k", LOCAL.format("ld"), "Kbyte", "2"), (0, "k", LOCAL.format("st"), "byte", "500")]
    assert counted(*rows)[0] == {"local_bytes": 2500.0}


def test_shares_are_weighted_by_the_kernels_times_and_the_longest_is_named():
    figures, remarks = counted(
        (0, "long<float>", TIME, "us", "30"), (0, "long<float>", DRAM, "%", "80"),
        (0, "long<float>", LIMIT.format("registers"), "block", "2"),
        (0, "long<float>", LIMIT.format("shared_mem"), "block", "16"),
        (0, "long<float>", STALL.format("barrier"), "inst", "0.5"),
        (1, "short", TIME, "us", "10"), (1, "short", DRAM, "%", "40"), (1, "short", DRAM + "x", "%", "1"),
        (1, "short", LIMIT.format("registers"), "block", "32"),
        (1, "short", STALL.format("long_scoreboard"), "inst", "4.5"),
    )  # fmt: skip
    assert figures == {"gpu_us": 40.0, "dram_percent": pytest.approx(70.0)}
    assert remarks == (
        "long<float> takes 75% of 2 kernels", "occupancy limited by registers", "most warps wait for long_scoreboard",
    )  # fmt: skip


def test_what_has_no_figure_is_left_out():
    rows = [
        (0, "k", TIME, "us", "3"),
        (0, "k", DRAM, "%", "n/a"),
        (0, "k", "lts__t_sector_hit_rate.pct", "%", "nan"),
    ]
    assert counted(*rows) == ({"gpu_us": 3.0}, ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no table"),
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ERR_NVGPUCTRPERM"),
        ("==PROF== Connected\n==WARNING== No kernels were profiled.", "No kernels were profiled"),
        ('"ID",""\n"0', "no table"),
        (HEADER + '\n"0","1\n\x00,,,', "no table"),
    ],
)
def test_garbage_is_refused_in_a_sentence(text, said):
    with pytest.raises(ProfilerError, match=said):
        read(text)


def test_it_is_here_where_the_driver_lets_a_worker_count(tmp_path):
    def here(text, device=GPU, program=sys.executable):
        (tmp_path / "params").write_text(text)
        return Ncu((program,), tmp_path / "params").available(device)

    assert here("RmProfilingAdminOnly: 0\n").ok
    for name in ("RmProfilingAdminOnly", "NVreg_RestrictProfilingToAdminUsers"):
        refused = here(f"UsePageAttributeTable: 1\n{name}: 1\n")
        assert not refused.ok and "NVreg_RestrictProfilingToAdminUsers=0" in refused.remedy
    outside = tmp_path / "ncu"
    outside.write_text("#!/bin/sh\n")
    outside.chmod(0o755)
    assert "no worker may read" in here("", program=str(outside)).what
    assert not here("", program="no-such-ncu").ok and not here("", CPU).ok


STAND_IN = f"""
import subprocess, sys
line = sys.argv[sys.argv.index(sys.executable):]
subprocess.run(line, close_fds=False, check=True)
asked = sys.argv[sys.argv.index("--metrics") + 1].split(",")
print('''{printed()}''')
for metric in asked:
    print('"0","41","python","h","k","1","7","b","g","0","9.0","s","' + metric + '","%","5"')
"""


class Everywhere(Ncu):
    """The tool on a machine without a GPU."""

    def available(self, device):
        return super().available(GPU)


def test_it_stands_in_front_of_a_worker_and_is_read(tmp_path):
    file = tmp_path / "double.py"
    file.write_text(
        'import kernelwright as kw\n\n@kw.task(x="float32[n]", workloads=[{"n": 64}])\n'
        "def double(x):\n    return x + x\n"
    )
    problem, notes = Problem(load_task(str(file))), []
    kernel = problem.baseline("eager", problem.task.workloads[0])
    tool = Everywhere((sys.executable, "-c", STAND_IN), tmp_path / "params")
    with Counting(problem, CPU, profilers=[tool], note=notes.append) as counting:
        (found,) = counting(kernel, get_language("torch").build(kernel))
    assert not notes and found.tool == "ncu" and found.workload == problem.task.workloads[0].name
    assert found.figures["dram_percent"] == 5.0 and found.figures["local_bytes"] == 10.0
    assert "%" in str(found) and len(METRICS) > 10
