"""CUDA C++ by nvcc, through the TVM FFI ABI; style `destination`. Builds without a GPU, runs on one.

A candidate is one or more `.cu` files with an entry `path:symbol`, called like a C++ kernel (`cpp.py`): the
arguments, the state, then the outputs, which are allocated on the GPU. Launch on `kw::stream(tensor)`, the
stream that torch uses now, and end with `KW_CHECK_LAUNCH()`.

    // scale.cu, entry "scale.cu:scale", called as scale(x, a)
    #include "kernelwright.h"

    __global__ void scale_kernel(const float* x, float a, float* out, int64_t n) {
      int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
      if (i < n) out[i] = a * x[i];
    }

    KW_KERNEL(scale) {
      auto x = args.tensor<const float>(0);
      const float a = static_cast<float>(args.real(1));
      auto out = args.tensor<float>(2);
      const int64_t n = x.numel();
      if (n == 0) return;
      const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
      scale_kernel<<<blocks, 256, 0, kw::stream(x)>>>(x.data(), a, out.data(), n);
      KW_CHECK_LAUNCH();
    }

A Python file that builds an extension from CUDA sources of its own (`load_inline`), in style `function` or `module`,
is a candidate too; torch builds its extension here, once (`_inline.py`).

The code is built for `sm_90` and for this machine's GPU, and its kernels are compiled for what a line
`// targets: sm_80, sm_100, sm_120` names; sources with `wgmma`, `setmaxnreg` or `tcgen05` for the variant that has them
(`sm_90a`). For each, ptxas reports `sm_90.registers` and `sm_90.shared_bytes` (most of any kernel), `sm_90.spill_bytes`
(stores and loads of all) and `sm_90.kernels`; `sm_90.resident_warps` are the most that a multiprocessor holds with
these registers and this shared memory. Where Triton is installed, its disassembler counts `sm_90.instructions`,
`sm_90.tensor_instructions`, `sm_90.async_copies` and others. A spill, or a named target that does not compile, is a
finding. A candidate's `flags` may be `-O2`, `--use_fast_math`, `-maxrregcount=64`, `-DTILE=8`,
`-std=c++20`, `-lcublas` and the like.
"""

import functools
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..records import Build, BuildStatus, Candidate, TensorSpec
from ._cache import cached_build
from ._cuda_targets import (
    architecture,
    compiled_for,
    machine_code,
    ptxas_evidence,
    targets_asked,
    targets_here,
)
from ._destination import Destination, load_entry
from ._entry import split_entry
from ._ffi import ffi_includes
from ._inline import build_inline, hand_out
from ._process import run_tool
from ._protocol import Availability, Kernel
from .cpp import INCLUDE, LIBRARY, missing_export
from .torch import check_python, load_symbol

_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
_STANDARD = "-std=c++17"
_BASE_FLAGS = (_STANDARD, "-O3", "-shared", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xptxas", "-v")
_ALLOWED = re.compile(
    r"-(O\d|D|U|I|l|L|std=|-use_fast_math$|use_fast_math$|-?maxrregcount=\d+|lineinfo$|-fmad=|-ftz=|-prec-)"
)
_REMEDY = "install the CUDA toolkit, put nvcc on the path, or set KERNELWRIGHT_NVCC"


class Cuda:
    """CUDA C++ kernels on an NVIDIA GPU."""

    name = "cuda"
    targets = ("sm_90",)
    """What every build compiles for, whatever GPU is here."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report which nvcc is used and whether there is a GPU to run on."""
        nvcc = self._nvcc()
        if nvcc is None:
            return Availability(False, "no nvcc", _REMEDY)
        if not torch.cuda.is_available():
            return Availability(True, f"nvcc {_version(nvcc)}, builds only: no GPU that torch can use")
        return Availability(True, f"nvcc {_version(nvcc)} on {torch.cuda.get_device_name()}")

    def toolchain(self) -> str:
        """Name nvcc, flags and targets."""
        nvcc = self._nvcc()
        if nvcc is None:
            return "no nvcc"
        return f"nvcc {_version(nvcc)} {' '.join(_BASE_FLAGS)} {' '.join(targets_here())}, variants by need"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Compile for every target, keep nvcc's output, parse registers and spills from ptxas."""
        nvcc = self._nvcc()
        if nvcc is None:
            return self.available().missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: self.compile(nvcc, candidate, folder, deadline_s),
        )

    def compile(self, nvcc: str, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile the sources that lie in the folder, into it."""
        if not by_python(candidate):
            return compile_with(nvcc, candidate, folder, deadline_s)
        checked = check_python(candidate, ())
        if checked.status is not BuildStatus.OK:
            return checked
        names = [architecture(target, candidate) for target in targets_here()]
        asked = [re.sub(r"sm_(\d+)(\d)", r"\1.\2", name) for name in names]
        return build_inline(candidate, folder, asked, deadline_s)

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:
        """Load the library and return a `Destination` whose outputs are on the GPU; of a Python file its symbol."""
        if not torch.cuda.is_available():
            raise MissingToolError("a CUDA kernel needs an NVIDIA GPU to run; torch finds none here")
        if by_python(candidate):
            hand_out(artefact)
            return load_symbol(candidate, artefact)
        entry = load_entry(artefact / LIBRARY, split_entry(candidate.entry)[1])
        strided = candidate.parameters.get("strided") is True
        return Destination(entry, outputs, strided=strided, device="cuda")

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: on a GPU."""
        return device.startswith("cuda")

    def _nvcc(self) -> str | None:
        if self._settings.nvcc:
            return shutil.which(self._settings.nvcc)
        home = self._settings.cuda_home
        return shutil.which("nvcc") or (shutil.which(home / "bin" / "nvcc") if home else None)


def compile_with(
    nvcc: str, candidate: Candidate, folder: Path, deadline_s: float, more: Sequence[str] = ()
) -> Build:
    """Compile a candidate's sources in a folder, with more words for nvcc; the build names no artefact yet."""
    problem = _problem(candidate)
    if problem is not None:
        return Build(status=BuildStatus.FAILED, diagnostics=problem)
    sources = [s.path for s in candidate.sources if s.path.endswith(_SUFFIXES)]
    begun = time.monotonic()
    names = [architecture(t, candidate) for t in targets_here()]
    codes = [f"-gencode=arch={name.replace('sm', 'compute')},code={name}" for name in names]
    words = [*candidate.flags, "-I.", f"-I{INCLUDE}", *ffi_includes()]
    command = [nvcc, *_BASE_FLAGS, *codes, *more, *words, *sources, "-o", LIBRARY]
    done = run_tool(command, deadline_s=deadline_s, folder=folder, closed=True)
    if done.timed_out:
        return Build(status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{done.output}")
    if done.returncode != 0:
        return Build(status=BuildStatus.FAILED, diagnostics=done.output)
    if missing := missing_export(candidate, folder / LIBRARY):
        return Build(status=BuildStatus.FAILED, diagnostics=f"{missing}\n{done.output}")
    evidence = {**ptxas_evidence(done.output), **machine_code(folder / LIBRARY)}
    findings = []
    for target in targets_asked(candidate):
        left_s = max(0.0, begun + deadline_s - time.monotonic())
        facts, refused = compiled_for(nvcc, candidate, folder, target, [_STANDARD, "-O3", *words], left_s)
        evidence |= facts
        findings += [refused] if refused else []
    findings += [
        f"{value} bytes of registers are spilled on {name.removesuffix('.spill_bytes')}"
        for name, value in evidence.items()
        if name.endswith(".spill_bytes") and value
    ]
    return Build(status=BuildStatus.OK, diagnostics=done.output, evidence=evidence, findings=tuple(findings))


def by_python(candidate: Candidate) -> bool:
    """Whether a candidate is a Python file, which builds its CUDA itself.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> source = SourceFile(path="k.py", text="")
        >>> by_python(Candidate(sources=(source,), language="cuda", entry="k.py:run"))
        True
    """
    return candidate.style != "destination" and candidate.entry.partition(":")[0].endswith(".py")


def _problem(candidate: Candidate) -> str | None:
    if candidate.style != "destination":
        return f"a CUDA kernel is called in style 'destination', not {candidate.style!r}"
    if not any(s.path.endswith(".cu") for s in candidate.sources):
        return f"no CUDA file among {[s.path for s in candidate.sources]}; expected a name that ends in .cu"
    for flag in candidate.flags:
        if not _ALLOWED.match(flag):
            return f"flag {flag!r} is not allowed; see the flags that kernelwright.languages.cuda names"
    try:
        split_entry(candidate.entry)
    except InputError as error:
        return str(error)
    return None


@functools.lru_cache
def _version(nvcc: str) -> str:
    found = re.search(r"V(\d[\d.]*)", run_tool([nvcc, "--version"], deadline_s=20).output)
    return found[1] if found else "of unknown version"
