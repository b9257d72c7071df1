"""Set the CPU name of PoCL's device to one that its compiler knows.

PoCL asks LLVM for the name of the CPU it runs on; LLVM 14 reports every newer CPU as `generic`, which
its own front end rejects: "unknown target CPU 'generic'". No option or variable of PoCL 3.0 names another, so the
name is changed in PoCL's record of the device, before anything is built.

Covers: PoCL 3.0 from the wheel, whose struct layout is known, on x86-64.
Does not cover: PoCL from elsewhere, which is not changed; AVX-512: under `skylake-avx512` kernels with barriers write
beyond their memory.
"""

import ctypes
from pathlib import Path
from typing import Any

_WHEEL = "OpenCL 3.0 PoCL 3.0-rc2  Linux, Release, RELOC, LLVM 14.0.6, SLEEF, DISTRO, POCL_DEBUG"
_TRIPLE, _CPU = 632, 640
"""Offsets of `llvm_target_triplet` and `llvm_cpu` in `struct _cl_device_id`."""
_HASWELL = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


def name_cpu(device: Any) -> None:
    """Set the CPU name of a device of PoCL's wheel, if PoCL has none."""
    if device.platform.version != _WHEEL:
        return
    record: int = device.int_ptr
    named = [ctypes.c_char_p.from_address(record + offset).value for offset in (_TRIPLE, _CPU)]
    if named == [b"x86_64-unknown-linux-gnu", b"generic"]:
        libc = ctypes.CDLL(None)
        libc.strdup.restype = ctypes.c_void_p
        # PoCL's own name came from `strdup` too: it may free what it finds.
        ctypes.c_void_p.from_address(record + _CPU).value = libc.strdup(known_cpu(_flags()).encode())


def known_cpu(flags: set[str]) -> str:
    """Return the best CPU for which PoCL compiles correct kernels, using only these instructions.

    Example:
        >>> known_cpu({"sse4_1", "avx"})
        'x86-64'
    """
    return "haswell" if flags >= _HASWELL else "x86-64"


def _flags() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
