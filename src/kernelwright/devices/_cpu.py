"""The CPU of this machine, as far as this process may use it."""

import json
import math
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import psutil

from ._device import Cache, Device

_UNITS = {
    "sse2": "sse2", "avx": "avx", "avx2": "avx2", "fma": "fma", "f16c": "f16c", "avx512f": "avx512",
    "avx512_bf16": "avx512_bf16", "avx512_fp16": "avx512_fp16", "avx512_vnni": "avx512_vnni",
    "amx_tile": "amx", "amx_bf16": "amx_bf16", "amx_int8": "amx_int8",
    "asimd": "neon", "asimdhp": "neon_fp16", "sve": "sve", "sve2": "sve2", "bf16": "neon_bf16",
}  # fmt: skip
"""The kernel's flag → the name used here. Source: Linux, arch/x86/include/asm/cpufeatures.h and
Documentation/arch/arm64/elf_hwcaps.rst."""

_LEVELS: dict[int, Literal["l1", "l2", "l3", "l4"]] = {1: "l1", 2: "l2", 3: "l3", 4: "l4"}
_SIZES = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cpu(root: Path = Path("/")) -> Device:
    """Describe the CPU that this process may use.

    Args:
        root: Where `/proc` and `/sys` are; tests pass a fake tree.
    """
    info = _cpuinfo(root)
    allowed = _affinity()
    quota = cpu_quota(root)
    cores = max(1, min(len(allowed), math.ceil(quota)) if quota else len(allowed))
    limit = memory_limit(root)
    total = psutil.virtual_memory().total
    facts: dict[str, bool | int | float | str | None] = {
        "architecture": platform.machine(),
        "logical_cpus": os.cpu_count() or 1,
        "physical_cores": psutil.cpu_count(logical=False) or 0,
        "hypervisor": "hypervisor" in info["flags"].split(),
    }
    if quota:
        facts["cgroup_cpus"] = quota
    return Device(
        kind="cpu",
        name=info["name"],
        cores=cores,
        memory_bytes=min(total, limit) if limit else total,
        torch_device="cpu",
        caches=_caches_from_sys(root, allowed) or _caches_from_lscpu(),
        vector_units=tuple(dict.fromkeys(_UNITS[f] for f in info["flags"].split() if f in _UNITS)),
        facts=facts,
    )


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the CPUs that the control groups above this process grant, or None if unlimited.

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst ("CPU Interface Files") and
    Documentation/scheduler/sched-bwc.rst (version 1).
    """
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        words = _read(folder / "cpu.max").split() or [
            _read(folder / "cpu.cfs_quota_us"),
            _read(folder / "cpu.cfs_period_us"),
        ]
        if len(words) == 2 and all(w.isdigit() for w in words) and int(words[1]) > 0:
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the bytes that the control groups above this process grant, or None if unlimited."""
    limits = []
    for folder in _cgroup_folders(root, "memory"):
        for file in ("memory.max", "memory.limit_in_bytes"):
            word = _read(folder / file)
            if word.isdigit():
                limits.append(int(word))
    return min(limits, default=None)


def _affinity() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Folders of this process's groups and every group above them, both versions."""
    folders: dict[Path, None] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / (controllers and controller)
        here = base / path.strip("/")
        folders.update(dict.fromkeys([here, *(p for p in here.parents if p.is_relative_to(base))]))
    return list(folders)


def _cpuinfo(root: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in _read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip().lower(), value.strip())
    name = fields.get("model name") or _lscpu("Model name:") or platform.processor() or platform.machine()
    if "cpu family" in fields and not re.search(r"\d", name):
        name += f" (family {fields['cpu family']} model {fields.get('model', '?')})"
    return {"name": name, "flags": fields.get("flags") or fields.get("features") or ""}


def _caches_from_sys(root: Path, allowed: list[int]) -> tuple[Cache, ...]:
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for cpu_id in allowed:
        for index in sorted((root / f"sys/devices/system/cpu/cpu{cpu_id}/cache").glob("index*")):
            level, size = _read(index / "level"), parse_size(_read(index / "size"))
            if _read(index / "type") == "Instruction" or not level.isdigit() or not size:
                continue
            shared = _read(index / "shared_cpu_list") or str(cpu_id)
            _, count = found.setdefault(int(level), {}).get(shared, (0, 0))
            found[int(level)][shared] = (size, count + 1)
    return tuple(
        Cache(
            level=_LEVELS[level],
            size_bytes=max(size for size, _ in instances.values()),
            instances=len(instances),
            shared_by=max(count for _, count in instances.values()),
        )
        for level, instances in sorted(found.items())
        if level in _LEVELS
    )


def _caches_from_lscpu() -> tuple[Cache, ...]:
    caches = []
    for row in json.loads(_output("lscpu", "-J", "-C", "--bytes") or "{}").get("caches", ()):
        one, level = int(row["one-size"] or 0), int(row["level"] or 0)
        if row["type"] != "Instruction" and one and level in _LEVELS:
            instances = max(1, int(row["all-size"] or one) // one)
            caches.append(Cache(level=_LEVELS[level], size_bytes=one, instances=instances))
    return tuple(sorted(caches, key=lambda c: c.level))


def _lscpu(field: str) -> str:
    rows = json.loads(_output("lscpu", "-J") or "{}").get("lscpu", ())
    return next((str(row["data"]) for row in rows if row["field"] == field), "")


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout
    except subprocess.TimeoutExpired:
        return ""


def parse_size(text: str) -> int:
    """Parse the kernel's size notation; 0 if invalid.

    Example:
        >>> parse_size("1024K")
        1048576
    """
    match = re.fullmatch(r"(\d+)([BKMG]?)", text)
    return int(match[1]) * _SIZES[match[2]] if match else 0


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
