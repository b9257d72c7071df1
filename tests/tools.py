"""What a machine may lack, one row each: whether it is here, the one reason to skip, what is not tested without it.

`@pytest.mark.needs("clang")` skips a test, a class or (as `pytestmark`) a file where clang is missing; `require`
does so from within a test, and at the head of a file before an import. No test skips by another way: `test_tools.py`
says so. A run ends with what the skips left untested, tool by tool.
"""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

AS_NOBODY = (sys.executable, str(Path(__file__).with_name("nobody.py")))
"""Runs a command as a user without rights."""


@dataclass(frozen=True)
class Tool:
    """One thing that a machine may lack."""

    here: Callable[[], bool]
    """Whether it is here and works."""
    reason: str
    """Why tests are skipped without it."""
    untested: str
    """What is not tested without it."""


def require(*names: str) -> None:
    """Skip the test, or the file that is being imported, where one of these is missing; the first that is says why."""
    missing = next((name for name in names if not is_here(name)), None)
    if missing is not None:
        pytest.skip(f"{missing}: {TOOLS[missing].reason}", allow_module_level=True)


@cache
def is_here(name: str) -> bool:
    """Tell whether a tool is here; looked for once."""
    return TOOLS[name].here()


def untested(reason: str) -> str:
    """Say of a skip's reason which promise it leaves untested.

    Example:
        >>> untested("clang: no clang++ on the PATH")
        'clang: no clang++ on the PATH; not tested: C++ kernels as clang compiles them, for ARM too'
    """
    tool = TOOLS.get(reason.partition(": ")[0])
    return f"{reason}; not tested: {tool.untested}" if tool else reason


def _on_path(*programs: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(program) for program in programs)


def _package(name: str) -> Callable[[], bool]:
    return lambda: find_spec(name) is not None


def _language(name: str) -> Callable[[], bool]:
    def available() -> bool:
        from kernelwright.languages import get_language

        return get_language(name).available().ok

    return available


def _ptxas() -> bool:
    from kernelwright.executor._ptxas import ptxas

    return bool(ptxas())


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _landlock() -> bool:
    from kernelwright.system.landlock import landlock_version

    return landlock_version() > 0


def _risc_v() -> bool:
    return all(map(shutil.which, ("riscv64-linux-gnu-gcc", "qemu-riscv64", "gcc")))


def _bubblewrap() -> bool:
    return bool(shutil.which("bwrap")) and _runs("bwrap", "--ro-bind", "/", "/", "--unshare-pid", "true")


def _objdump() -> bool:
    return bool(shutil.which("objdump")) and "x86-64" in _says("objdump", "--info")


def _sanitisers() -> bool:
    """Tell whether g++ has the libraries that it names by a path if they are there, else by their name alone."""
    return bool(shutil.which("g++")) and all(
        "/" in _says("g++", f"-print-file-name={name}") for name in ("libasan.so", "libubsan.so")
    )


def _perf_events() -> bool:
    """Count page faults of this process, which every system that allows counting can."""
    from kernelwright.devices import detect
    from kernelwright.profile.tools.perf import Perf

    return Perf().available(detect("cpu")).ok


def _gcc_with_amx() -> bool:
    """Tell whether g++ has AMX's instructions: GCC 11 or later, for x86-64, with an assembler that has them."""
    return bool(shutil.which("g++")) and _runs(
        "g++", "-mamx-tile", "-mamx-bf16", "-mamx-int8", "-E", "-xc++", "/dev/null"
    )


def _system_call_filter() -> bool:
    """Ask the kernel whether a filter may answer with an error (SECCOMP_GET_ACTION_AVAIL)."""
    number = {"x86_64": 317, "aarch64": 277}.get(platform.machine())
    action = ctypes.c_uint32(0x00050000)
    return number is not None and ctypes.CDLL(None).syscall(number, 2, 0, ctypes.byref(action)) == 0


def _pid_namespaces() -> bool:
    """Try to make one, in a process of its own, with the rights that this one has; bubblewrap makes them too."""
    attempt = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x20000000) != 0)"
    return _runs(sys.executable, "-c", attempt) or is_here("bwrap")


def _another_user() -> bool:
    """Tell whether this process may become a user without rights to whom Python and this project are readable."""
    wanted = "from importlib.util import find_spec as f; import sys; sys.exit(not (f('torch') and f('kernelwright')))"
    return os.geteuid() == 0 and _runs(*AS_NOBODY, sys.executable, "-c", f"open({__file__!r}); {wanted}")


def _runs(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def _says(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


TOOLS = {
    "bwrap": Tool(
        _bubblewrap, "no bubblewrap that works here", "candidates and coding agents in bubblewrap"
    ),
    "Landlock": Tool(_landlock, "no Landlock in this kernel", "candidates and compilers closed in by Landlock"),
    "system call filter": Tool(
        _system_call_filter, "no seccomp in this kernel", "system calls refused to candidates"
    ),
    "PID namespaces": Tool(
        _pid_namespaces, "no right to make PID namespaces", "candidates that start processes without end"
    ),
    "another user": Tool(
        _another_user, "not root, or others may not read this Python", "the sandbox as a user who is not root"
    ),
    "C++ compiler": Tool(_on_path("g++", "clang++"), "neither g++ nor clang++ on the PATH", "all C++ kernels"),
    "g++": Tool(_on_path("g++"), "no g++ on the PATH", "C++ kernels as g++ compiles them"),
    "g++ with AMX": Tool(_gcc_with_amx, "no g++ that knows -mamx-tile", "that products by the tile unit compile"),
    "sanitisers": Tool(
        _sanitisers, "no g++ with its sanitisers' libraries", "kernels of the library under sanitisers"
    ),
    "clang": Tool(
        _on_path("clang++"), "no clang++ on the PATH", "C++ kernels as clang compiles them, for ARM too"
    ),
    "objdump": Tool(_objdump, "no objdump that reads x86-64", "what is read from a compiled kernel"),
    "perf events": Tool(_perf_events, "perf_event_open is not allowed", "counters of the processor and the system"),
    "waiting times": Tool(
        lambda: Path("/proc/self/schedstat").exists(), "no /proc/PID/schedstat in this system",
        "deadlines that leave out seconds without a processor",
    ),
    "nvcc": Tool(_language("cuda"), "no nvcc", "the compilation of CUDA kernels"),
    "ptxas": Tool(_ptxas, "no ptxas, of CUDA's toolkit or Triton's wheel", "what ptxas refuses of PTX"),
    "HIP": Tool(_language("hip"), "no clang for AMD GPUs with Triton's wheel", "the compilation of HIP kernels"),
    "helion": Tool(_language("helion"), "no helion package", "Helion kernels, executed"),
    "tilelang": Tool(_language("tilelang"), "no tilelang package with nvcc", "TileLang kernels, executed"),
    "cute": Tool(
        _language("cute"), "no nvidia-cutlass-dsl package with nvcc", "kernels of CuTe DSL, executed"
    ),
    "pallas": Tool(_language("pallas"), "no jax package", "Pallas kernels, interpreted"),
    "GPU": Tool(_gpu, "no GPU that torch can use", "everything on a GPU: the device path, GPU exploits"),
    "no GPU": Tool(lambda: not _gpu(), "there is a GPU here", "what is done where there is no GPU"),
    "triton": Tool(_package("triton"), "no triton package", "Triton kernels, interpreted and cross-compiled"),
    "openvino": Tool(_package("openvino"), "no openvino package", "OpenVINO as a baseline"),
    "onnxruntime": Tool(_package("onnxruntime"), "no onnxruntime package", "ONNX Runtime as a baseline"),
    "gguf": Tool(_package("gguf"), "no gguf package", "that GGUF is read as ggml reads it"),
    "pyopencl": Tool(_package("pyopencl"), "no pyopencl package", "what is said of an OpenCL driver"),
    "OpenCL": Tool(_language("opencl"), "no pyopencl with a driver that builds", "OpenCL kernels"),
    "WebGPU adapter": Tool(_language("wgsl"), "no wgpu with a Vulkan driver", "WGSL kernels"),
    "hta": Tool(_package("hta"), "no HolisticTraceAnalysis package", "that traces give the figures it gives"),
    "transformers": Tool(_package("transformers"), "no transformers package", "models of transformers"),
    "kernels": Tool(_package("kernels"), "no kernels package", "packages in the layout of the kernels library"),
    "ray": Tool(_package("ray"), "no ray package", "evaluations on a cluster"),
    "pyarrow": Tool(_package("pyarrow"), "no pyarrow package", "BackendBench's table of recorded calls"),
    "mcp": Tool(_package("mcp"), "no mcp package", "the server for coding agents"),
    "node": Tool(_on_path("node"), "no node on the PATH", "packages for JavaScript, run"),
    "Chromium": Tool(
        _on_path("chromium", "chromium-browser", "google-chrome"), "no Chromium on the PATH", "kernels in a browser"
    ),
    "RISC-V": Tool(
        _risc_v, "no riscv64-linux-gnu-gcc with qemu-riscv64", "RISC-V programs of craft tasks, run under an emulator"
    ),
    "qemu": Tool(_on_path("qemu-aarch64", "qemu-aarch64-static"), "no qemu-aarch64 on the PATH", "ARM kernels, run"),
}  # fmt: skip
"""Everything optional, by the name that tests give."""

TOOL_OF = {
    "cpp": "C++ compiler",
    "cuda": "nvcc",
    "hip": "HIP",
    "opencl": "OpenCL",
    "wgsl": "WebGPU adapter",
    "pallas": "pallas",
    "triton": "triton",
    "gluon": "triton",
    "helion": "helion",
    "tilelang": "tilelang",
    "cute": "cute",
}
"""What each language needs; `torch` needs nothing more."""
