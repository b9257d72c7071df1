"""HIP C++ for AMD GPUs by clang; style `destination`. Compiled for GPUs that need not be here, and not run.

A candidate is one or more `.hip` files with an entry `path:symbol`, written as in CUDA C++ (`cuda.py`):

    // scale.hip, entry "scale.hip:scale", called as scale(x, a)
    #include "kernelwright.h"

    __global__ void scale_kernel(const float* x, float a, float* out, int64_t n) {
      int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
      if (i < n) out[i] = a * x[i];
    }

    KW_KERNEL(scale) {
      auto x = args.tensor<const float>(0);
      const float a = static_cast<float>(args.real(1));
      auto out = args.tensor<float>(2);
      const unsigned blocks = static_cast<unsigned>((x.numel() + 255) / 256);
      scale_kernel<<<blocks, 256, 0, kw::stream(x)>>>(x.data(), a, out.data(), x.numel());
      KW_CHECK_LAUNCH();
    }

It needs a clang that knows the targets and, from Triton's wheel, HIP's headers and device libraries; no ROCm. The
wheel has `<hip/hip_runtime.h>`, not `<hip/hip_fp16.h>` or `<hip/hip_bf16.h>`: use `_Float16` and `__bf16`.

For each target the build holds, as its worst over the kernels, `gfx942.registers` (vector registers, accumulation
registers among them), `.accumulators`, `.scalar_registers`, `.shared_bytes` (LDS), `.scratch_bytes`, `.waves` (on a
SIMD, without memory asked for at the launch), and as sums `.kernels`, `.spill_bytes`, `.instructions`,
`.tensor_instructions` (mfma), `.global_loads`, `.shared_accesses` and `.spill_instructions`. The assembly is kept as
`gfx942.s`. A spill, or a target for which it does not compile and assemble, is a finding; a file
that compiles for none fails, and one that includes a header of ROCm that is not here is `unavailable`. None of it
predicts time. `flags` may be `-O2`, `-DTILE=8`, `-std=c++20`, `-ffast-math` and the like.
"""

import functools
import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path
from typing import Final

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..records import Build, BuildStatus, Candidate, Scalar, TensorSpec
from ._amdgcn import amd_facts
from ._cache import cached_build
from ._entry import split_entry
from ._ffi import ffi_includes
from ._process import run_tool
from ._protocol import Availability, Kernel
from .cpp import INCLUDE, missing_export

TARGETS: Final = {"gfx90a": 9010, "gfx942": 9402, "gfx950": 9500}
"""GPUs that every build compiles for (MI200, MI300, MI350), and the numbers that the device libraries know them by."""
_SUFFIX = ".hip"
_FLAGS = (
    "-x",
    "hip",
    "-std=c++17",
    "-O3",
    "-nogpuinc",
    "-nogpulib",
    "-include",
    "__clang_hip_runtime_wrapper.h",
)
_ALLOWED = re.compile(
    r"-(O\d|D|U|I|std=|ffast-math$|fno-|ffp-contract=|funroll-loops$|munsafe-fp-atomics$|W)"
)
_FORBIDDEN = re.compile(r"-W[lap],")
_NO_HEADER = re.compile(
    r"^(\S+:\d+):\d+: fatal error: '([^']+)' file not found\n[^\n]*#\s*include\s*<", re.MULTILINE
)
_REMEDY = "install clang 20 or later (`apt-get install clang-22`) and `pip install 'kernelwright[triton]'`"
_CONSTANTS = """\
target triple = "amdgcn-amd-amdhsa"
@__oclc_ISA_version = linkonce_odr hidden addrspace(4) constant i32 {number}
@__oclc_ABI_version = linkonce_odr hidden addrspace(4) constant i32 600
@__oclc_wavefrontsize64 = linkonce_odr hidden addrspace(4) constant i8 1
@__oclc_finite_only_opt = linkonce_odr hidden addrspace(4) constant i8 0
@__oclc_unsafe_math_opt = linkonce_odr hidden addrspace(4) constant i8 0
@__oclc_daz_opt = linkonce_odr hidden addrspace(4) constant i8 0
@__oclc_correctly_rounded_sqrt32 = linkonce_odr hidden addrspace(4) constant i8 1
"""
"""What the device libraries ask of the target, as clang's own driver would answer it without flags."""


class Hip:
    """HIP C++ kernels, compiled for AMD GPUs."""

    name = "hip"
    not_run = "a HIP kernel is compiled here and not run: nothing here executes code for AMD GPUs"
    """Why a judgement of one is unknown."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    @property
    def targets(self) -> tuple[str, ...]:
        """What a build compiles for: the targets that clang knows; all of them where there is no clang."""
        clang = _clang()
        return _known(clang) if clang else tuple(TARGETS)

    def available(self) -> Availability:
        """Report which clang and which device libraries are used."""
        clang, home = _clang(), _device_home()
        if clang is None:
            return Availability(False, f"no clang that knows {', '.join(TARGETS)}", _REMEDY)
        if home is None:
            return Availability(False, "no HIP headers and device libraries of Triton's wheel", _REMEDY)
        return Availability(True, f"{_version(clang)}, compiles only, not timed")

    def toolchain(self) -> str:
        """Name clang, the device libraries' wheel, flags and targets."""
        clang = _clang()
        if clang is None or _device_home() is None:
            return "no clang for AMD GPUs"
        libraries = importlib.metadata.version("triton")
        return f"{_version(clang)}, libraries of triton {libraries}, assembled, {' '.join((*_FLAGS, *self.targets))}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Compile for every target, and for the host to see that the entry is there."""
        status, clang, home = self.available(), _clang(), _device_home()
        if not status.ok or clang is None or home is None:
            return status.missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: _compile(clang, home, candidate, folder, deadline_s),
        )

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:  # noqa: ARG002
        """Say that there is nothing to run it on.

        Raises:
            MissingToolError: always.
        """
        raise MissingToolError(self.not_run)

    def timeable(self, device: str) -> bool:  # noqa: ARG002
        """Whether times are meaningful: never, as nothing runs."""
        return False


def _compile(clang: str, home: Path, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
    problem = _problem(candidate)
    if problem is not None:
        return Build(status=BuildStatus.FAILED, diagnostics=problem)
    sources = [s.path for s in candidate.sources if s.path.endswith(_SUFFIX)]
    if len(sources) > 1:
        (folder / "all.hip").write_text("".join(f'#include "{path}"\n' for path in sources))
        sources = ["all.hip"]
    words: list[str | Path] = [
        clang, *_FLAGS, *candidate.flags, "-I.", f"-I{INCLUDE}", "-isystem", home / "include", *ffi_includes(),
        sources[0],
    ]  # fmt: skip
    host = run_tool(
        [*words, "--cuda-host-only", "-c", "-o", "host.o"], deadline_s=deadline_s, folder=folder, closed=True
    )
    if host.timed_out:
        return Build(status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{host.output}")
    if lacking := _lacking(host.output):
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=lacking)
    if host.returncode != 0:
        return Build(status=BuildStatus.FAILED, diagnostics=host.output)
    if missing := missing_export(candidate, folder / "host.o"):
        return Build(status=BuildStatus.FAILED, diagnostics=missing)
    (folder / "host.o").unlink()
    evidence: dict[str, Scalar] = {}
    findings, errors = [], []
    for target in _known(clang):
        error = _assemble(clang, words, target, home, folder, deadline_s)
        if error:
            errors.append(f"it does not compile for {target}: {error}")
            continue
        facts = amd_facts((folder / f"{target}.s").read_text(), target)
        evidence |= {f"{target}.{name}": value for name, value in facts.items()}
        if facts["spill_bytes"]:
            findings.append(f"{facts['spill_bytes']} bytes of registers are spilled on {target}")
    if not evidence:
        return Build(status=BuildStatus.FAILED, diagnostics="\n".join(errors))
    return Build(
        status=BuildStatus.OK, diagnostics=host.output, evidence=evidence, findings=(*findings, *errors)
    )


def _assemble(
    clang: str, words: list[str | Path], target: str, home: Path, folder: Path, deadline_s: float
) -> str:
    """Write the target's assembly into the folder; return what went wrong, if anything."""
    text, bitcode = folder / f"{target}.ll", folder / f"{target}.bc"
    text.write_text(_CONSTANTS.format(number=TARGETS[target]))
    constants: list[str | Path] = [
        clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", "-x", "ir", "-emit-llvm", "-c",
        text, "-o", bitcode,
    ]  # fmt: skip
    libraries = [home / "lib" / "ocml.bc", home / "lib" / "ockl.bc", bitcode]
    linked = [word for path in libraries for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", path)]
    device: list[str | Path] = [
        *words,
        "--cuda-device-only",
        f"--offload-arch={target}",
        "-S",
        *linked,
        "-o",
        f"{target}.s",
    ]
    # -S writes inline assembly as it stands; only the assembler reads it
    assembled: list[str | Path] = [
        clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-x", "assembler", "-c",
        f"{target}.s", "-o", f"{target}.o",
    ]  # fmt: skip
    for command in (constants, device, assembled):
        done = run_tool(command, deadline_s=deadline_s, folder=folder, closed=True)
        if done.timed_out:
            return f"no end after {deadline_s:g} s"
        if done.returncode != 0:
            return done.output.strip()
    for made in (text, bitcode, folder / f"{target}.o"):
        made.unlink()
    return ""


def _lacking(said: str) -> str:
    """Say which header of a package is not here; empty if none is missing, or the candidate's own is.

    Example:
        >>> _lacking("k.hip:2:10: fatal error: 'hip/hip_fp16.h' file not found\\n    2 | #include <hip/hip_fp16.h>")
        "'hip/hip_fp16.h', which k.hip:2 includes, is not here: Triton's wheel has <hip/hip_runtime.h>, no more of ROCm"
    """
    found = _NO_HEADER.search(said)
    if found is None:
        return ""
    where, name = found.groups()
    return f"{name!r}, which {where} includes, is not here: Triton's wheel has <hip/hip_runtime.h>, no more of ROCm"


def _problem(candidate: Candidate) -> str | None:
    if candidate.style != "destination":
        return f"a HIP kernel is called in style 'destination', not {candidate.style!r}"
    if not any(s.path.endswith(_SUFFIX) for s in candidate.sources):
        return (
            f"no HIP file among {[s.path for s in candidate.sources]}; expected a name that ends in {_SUFFIX}"
        )
    for flag in candidate.flags:
        if not _ALLOWED.match(flag) or _FORBIDDEN.match(flag):
            return f"flag {flag!r} is not allowed; see the flags that kernelwright.languages.hip names"
    try:
        split_entry(candidate.entry)
    except InputError as error:
        return str(error)
    return None


def _clang() -> str | None:
    """Return the newest clang++ on the path that knows one of the targets."""
    found: dict[int, str] = {}
    for folder in os.get_exec_path():
        for path in sorted(Path(folder).glob("clang++*")):
            version = re.fullmatch(r"clang\+\+(?:-(\d+))?", path.name)
            if version and os.access(path, os.X_OK):
                found.setdefault(int(version[1] or 0), str(path))
    return next((found[version] for version in sorted(found, reverse=True) if _known(found[version])), None)


@functools.lru_cache
def _known(clang: str) -> tuple[str, ...]:
    """Return the targets that a clang compiles for."""
    command = [clang, "--print-supported-cpus", "--target=amdgcn-amd-amdhsa"]
    listed = run_tool(command, deadline_s=20).output.split()
    return tuple(target for target in TARGETS if target in listed)


@functools.lru_cache
def _device_home() -> Path | None:
    """Return the folder of Triton's wheel that holds HIP's headers and device libraries, without importing Triton."""
    spec = importlib.util.find_spec("triton")
    home = Path(spec.origin).parent / "backends" / "amd" if spec and spec.origin else None
    files = ("include/hip/hip_runtime.h", "lib/ocml.bc", "lib/ockl.bc")
    return home if home and all((home / name).is_file() for name in files) else None


@functools.lru_cache
def _version(clang: str) -> str:
    line = run_tool([clang, "--version"], deadline_s=20).output.splitlines()
    return line[0].strip() if line else clang
