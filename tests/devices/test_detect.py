import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kernelwright.devices import Cache, Device, detect, devices
from kernelwright.devices._cpu import cpu, cpu_quota, memory_limit
from kernelwright.errors import MissingToolError, NotFoundError

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Made Up 9000
flags\t\t: fpu sse2 avx avx2 fma avx512f avx512_bf16 amx_tile hypervisor
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def cache_files(cpu_id: int, index: int, level: str, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{cpu_id}/cache/index{index}"
    values = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
    return {f"{folder}/{name}": value for name, value in values.items()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four CPUs, of which this process may use three."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    files = {"proc/cpuinfo": CPUINFO, "proc/self/cgroup": "0::/"}
    for i in range(4):
        files |= cache_files(i, 0, "1", "Data", "48K", str(i))
        files |= cache_files(i, 1, "1", "Instruction", "32K", str(i))
        files |= cache_files(i, 2, "2", "Unified", "2M", str(i))
        files |= cache_files(i, 3, "3", "Unified", "32M", "0-1" if i < 2 else "2-3")
    return write(tmp_path, files)


def test_cpu_counts_only_what_the_process_may_use(machine: Path) -> None:
    found = cpu(machine)
    assert (found.kind, found.name, found.cores) == ("cpu", "Made Up 9000", 3)
    assert found.caches == (
        Cache(level="l1", size_bytes=48 << 10, instances=3, shared_by=1),
        Cache(level="l2", size_bytes=2 << 20, instances=3, shared_by=1),
        Cache(level="l3", size_bytes=32 << 20, instances=2, shared_by=2),
    )
    assert found.last_level_bytes == 64 << 20
    assert {"avx2", "avx512", "avx512_bf16", "amx"} <= set(found.vector_units)
    assert found.facts["hypervisor"] is True


@pytest.mark.parametrize(
    ("cgroup", "files", "cpus"),
    [
        ("0::/", {"sys/fs/cgroup/cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"sys/fs/cgroup/cpu.max": "max 100000"}, None),
        ("0::/a/b", {"sys/fs/cgroup/a/cpu.max": "200000 100000", "sys/fs/cgroup/a/b/cpu.max": "max 100000"}, 2.0),
        (
            "4:cpu,cpuacct:/job\n0::/",
            {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000"},
            0.5,
        ),
        (
            "1:cpu:/",
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
            None,
        ),
    ],
)  # fmt: skip
def test_container_limits_of_both_versions(
    tmp_path: Path, cgroup: str, files: dict[str, str], cpus: float | None
) -> None:
    assert cpu_quota(write(tmp_path, {"proc/self/cgroup": cgroup} | files)) == cpus


def test_a_quota_lowers_cores_and_memory(machine: Path) -> None:
    write(machine, {"sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/memory.max": "1048576"})
    found = cpu(machine)
    assert (found.cores, found.memory_bytes, found.facts["cgroup_cpus"]) == (2, 1 << 20, 1.5)
    assert memory_limit(machine) == 1 << 20


def test_arm_flags_and_nameless_cpus(machine: Path) -> None:
    text = "CPU part\t: 0xd40\nFeatures\t: fp asimd sve sve2 bf16\n"
    found = cpu(write(machine, {"proc/cpuinfo": text}))
    assert found.vector_units == ("neon", "sve", "sve2", "neon_bf16")
    assert found.name


def test_fingerprints_tell_machines_apart_and_are_stable(machine: Path) -> None:
    first = cpu(machine)
    assert first.fingerprint == cpu(machine).fingerprint
    assert first.fingerprint.startswith("cpu-")
    for change in ({"name": "other"}, {"cores": 2}, {"caches": ()}, {"vector_units": ("avx2",)}):
        assert first.model_copy(update=change).fingerprint != first.fingerprint
    assert first.model_copy(update={"memory_bytes": 1}).fingerprint == first.fingerprint


def test_this_machine() -> None:
    found = detect("cpu")
    assert found.torch_device == "cpu"
    assert 1 <= found.cores <= (os.cpu_count() or 1)
    assert found.memory_bytes > 1 << 28
    assert Device.from_json(found.to_json()) == found


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H100 80GB HBM3", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30,
        L2_cache_size=50 << 20, shared_memory_per_multiprocessor=233472, warp_size=32,
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda: 12080, raising=False)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.version, "cuda", "12.8")


def test_gpus_are_described_through_torch(two_gpus: None) -> None:
    found = detect("cuda:1")
    assert (found.kind, found.torch_device, found.cores) == ("cuda", "cuda:1", 132)
    assert found.last_level_bytes == 50 << 20
    assert found.facts["capability"] == "9.0"
    assert found.facts["shared_bytes_per_sm"] == 233472
    assert [d.torch_device for d in devices()] == ["cpu", "cuda:0", "cuda:1"]
    assert detect().torch_device == "cuda:0"
    assert detect("hip").torch_device == "cuda:0"


def test_a_new_driver_is_another_machine(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = detect("cuda").fingerprint
    monkeypatch.setattr(torch._C, "_cuda_getDriverVersion", lambda: 13000)
    assert detect("cuda").fingerprint != before


def test_amd_is_told_apart(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert detect("cuda").kind == "hip"


@pytest.mark.parametrize("name", ["tpu", "cuda:", "cuda:x", "cpu:0", "cuda0", ""])
def test_names_that_stand_for_nothing(two_gpus: None, name: str) -> None:
    with pytest.raises(NotFoundError, match="expected 'cpu', 'cuda'"):
        detect(name)


def test_an_index_too_high_lists_what_is_there(two_gpus: None) -> None:
    with pytest.raises(NotFoundError, match="here are 'cuda:0', 'cuda:1'"):
        detect("cuda:2")


def test_no_gpu_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingToolError, match="--device cpu"):
        detect("cuda")
    assert detect().torch_device == "cpu"
