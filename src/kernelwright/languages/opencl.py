"""OpenCL C; style `destination`. Runs on PoCL from its wheel (the CPU), or on any device with a driver.

A candidate is a `.cl` file; other files are not read. The entry `path:symbol` names the kernel. Its arguments
are the task's arguments, then the state, then the outputs, in order; tensors are `__global` pointers, scalars
are passed by value in the type that the kernel declares. Everything else a launch needs is in comment lines
`// launch: name = expression`, Python expressions over the arguments' shapes and the lines above:

- `global` (required) and `local`: work-items, a number or a tuple of up to three;
- `require`: a condition; if it does not hold, the call is `Unsupported`;
- any other name that is an argument of the kernel is passed for it and is then not one of the task's.

    // scale.cl, entry "scale.cl:scale", called as scale(x, a)
    // launch: n = prod(x.shape)
    // launch: require = n < 2147483647 and x.dtype == "float32"
    // launch: local = 64
    // launch: global = cdiv(n, 64) * 64
    __kernel void scale(__global const float* x, float a, int n, __global float* out) {
      int i = get_global_id(0);
      if (i < n) out[i] = a * x[i];
    }

Expressions may use `cdiv`, `prod`, `min`, `max` and `len`. On a CPU device buffers are the tensors' own memory
(`CL_MEM_USE_HOST_PTR`), so nothing is copied and times are meaningful; other devices copy inside the call.
A source of several kernels has `// kernel: name(x, out)` lines (`_stages.py`).
A candidate's `flags` are build options, such as `-cl-mad-enable` or `-DTILE=8`.
"""

import ctypes
import json
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..records import Build, BuildStatus, Candidate, Scalar, TensorSpec
from ._cache import cached_build
from ._destination import Destination
from ._entry import source_of
from ._launch import Geometry, Launch, View
from ._pocl import name_cpu
from ._process import run_tool
from ._protocol import Availability, Kernel
from ._stages import Stages

_REMEDY = "pip install 'kernelwright[opencl]'"
_NEWER = "install a driver that knows this CPU, and set OCL_ICD_VENDORS to the folder of its .icd file"
_SCALARS: dict[str, type[np.generic]] = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32,
    "uint": np.uint32, "long": np.int64, "ulong": np.uint64, "float": np.float32, "double": np.float64,
}  # fmt: skip
_ARGUMENT_NAMES = "-cl-kernel-arg-info"
_ALLOWED_FLAGS = ("-cl-", "-D", "-U", "-w", "-W")


class OpenCL:
    """OpenCL candidates."""

    name = "opencl"
    compiles_when_called = True

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report which device is used."""
        try:
            device = default_device()
        except MissingToolError as error:
            return Availability(False, str(error), _REMEDY)
        complaint = _complaint(device)
        if complaint:
            return Availability(False, f"{device.platform.version} builds nothing here: {complaint}", _NEWER)
        return Availability(True, f"{device.platform.name} on {device.name}")

    def toolchain(self) -> str:
        """Name the driver and the device."""
        try:
            device = default_device()
        except MissingToolError:
            return "no OpenCL"
        return f"{device.platform.version} {device.driver_version} on {device.name}"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Check the launch lines and build the program once, in a separate process, for its log."""
        status = self.available()
        if not status.ok:
            return status.missing()
        return cached_build(
            self._settings.cache,
            candidate,
            self.toolchain(),
            lambda folder: _build(candidate, folder, deadline_s),
        )

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:  # noqa: ARG002
        """Build the program in this process and return a `Destination` bound to the outputs."""
        entry = _Program(*source_of(candidate), candidate.flags)
        return Destination(entry, outputs, strided=candidate.parameters.get("strided") is True)

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: tensors are the CPU's."""
        return device == "cpu"


def default_device() -> Any:
    """Return the first CPU device, or if there is none the first of any kind.

    Raises:
        MissingToolError: pyopencl or a driver is missing.
    """
    try:
        import pyopencl as cl
    except ImportError as error:
        raise MissingToolError("no pyopencl") from error
    try:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error as error:
        raise MissingToolError(f"no OpenCL driver: {error}") from error
    if not devices:
        raise MissingToolError("no OpenCL device")
    chosen = next((d for d in devices if d.type & cl.device_type.CPU), devices[0])
    name_cpu(chosen)
    return chosen


def _complaint(device: Any) -> str:
    """Return the driver's error for a trivial kernel, if any; a driver may be older than the CPU."""
    import pyopencl as cl

    program = cl.Program(cl.Context([device]), "__kernel void nothing(__global float* x) {}")
    try:
        with _quiet():
            program.build(cache_dir=False)
    except cl.Error as error:
        message = program.get_build_info(device, cl.program_build_info.LOG).strip() or str(error)
        return str(message).splitlines()[0]
    return ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence drivers that warn on every build: the build log has the errors."""
    import pyopencl as cl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        yield


@dataclass(frozen=True)
class _Step:
    """One kernel of a program."""

    kernel: Any
    names: tuple[str, ...]
    """What it is passed, by name."""
    types: tuple[str, ...]
    launch: Launch


class _Program:
    """A built source: called with tensors and scalars in the call's order, writes into its outputs."""

    def __init__(self, source: str, symbol: str, flags: tuple[str, ...]) -> None:
        import pyopencl as cl

        self._cl = cl
        self._context = cl.Context([default_device()])
        self._queue = cl.CommandQueue(self._context)
        with _quiet():
            program = cl.Program(self._context, source).build([*flags, _ARGUMENT_NAMES])
        self._stages = Stages(source)
        if self._stages.stages:
            self._steps = [self._step(program, s.kernel, s.launch, s.arguments) for s in self._stages.stages]
        else:
            self._steps = [self._step(program, symbol, Launch(source), ())]
        alone = self._steps[0]
        self._given = self._stages.arguments or tuple(n for n in alone.names if n not in alone.launch.names)
        self._known: dict[tuple[Any, ...], tuple[list[Geometry], dict[str, Any]]] = {}

    def _step(self, program: Any, symbol: str, launch: Launch, passed: tuple[str, ...]) -> _Step:
        kernel, info = self._cl.Kernel(program, symbol), self._cl.kernel_arg_info
        count = range(kernel.num_args)
        names = passed or tuple(kernel.get_arg_info(i, info.NAME) for i in count)
        if len(names) != len(count):
            raise InputError(f"kernel {symbol!r} takes {len(count)} arguments; its line passes {len(names)}")
        return _Step(kernel, names, tuple(kernel.get_arg_info(i, info.TYPE_NAME) for i in count), launch)

    def __call__(self, *arguments: Any) -> None:
        if len(arguments) != len(self._given):
            raise InputError(
                f"the kernel takes {len(self._given)} arguments ({', '.join(self._given)}) beyond what its "
                f"launch lines define; the task passes {len(arguments)}, outputs included"
            )
        if any(isinstance(a, torch.Tensor) and a.device.type != "cpu" for a in arguments):
            raise NotImplementedError("Unsupported: OpenCL kernels take tensors of the CPU")
        if isinstance(arguments[-1], torch.Tensor) and arguments[-1].numel() == 0:
            return
        by_name = dict(zip(self._given, arguments, strict=True))
        geometries, temporaries = self._prepared(by_name)
        made: dict[str, Any] = dict(temporaries)
        for step, geometry in zip(self._steps, geometries, strict=True):
            for name, type_name in zip(step.names, step.types, strict=True):
                if name in by_name and name not in made:
                    made[name] = self._value(by_name[name], type_name)
            sizes = {
                n: self._value(geometry.derived[n], t)
                for n, t in zip(step.names, step.types, strict=True) if n in geometry.derived
            }  # fmt: skip
            step.kernel.set_args(*((sizes | made)[n] for n in step.names))
            self._cl.enqueue_nd_range_kernel(
                self._queue, step.kernel, geometry.global_size, geometry.local_size
            )
        self._read_back([made[n] for n in by_name if n in made])

    def _prepared(self, by_name: dict[str, Any]) -> tuple[list[Geometry], dict[str, Any]]:
        """Return the launches and the temporaries for these shapes, made once."""
        key = tuple((tuple(a.shape), a.dtype) if isinstance(a, torch.Tensor) else a for a in by_name.values())
        if key not in self._known:
            given = {
                name: View(tuple(a.shape), str(a.dtype).removeprefix("torch."))
                if isinstance(a, torch.Tensor)
                else a
                for name, a in by_name.items()
            }
            views, sizes = self._stages.views(given) if self._stages.stages else (given, {})
            buffers = {
                name: self._cl.Buffer(
                    self._context, self._cl.mem_flags.READ_WRITE,
                    size=max(1, count) * getattr(torch, self._stages.temporaries[name][0]).itemsize,
                )
                for name, count in sizes.items()
            }  # fmt: skip
            self._known[key] = [step.launch.geometry(views) for step in self._steps], buffers
        return self._known[key]

    def _value(self, value: Any, type_name: str) -> Any:
        if not isinstance(value, torch.Tensor):
            if type_name not in _SCALARS:
                raise NotImplementedError(
                    f"Unsupported: {value!r} is passed where the kernel takes {type_name}"
                )
            return _SCALARS[type_name](value)
        if not type_name.endswith("*"):
            raise NotImplementedError(f"Unsupported: a tensor is passed where the kernel takes {type_name}")
        nbytes = value.numel() * value.element_size()
        if nbytes == 0:
            return None
        memory = (ctypes.c_char * nbytes).from_address(value.data_ptr())
        flags = self._cl.mem_flags
        return self._cl.Buffer(self._context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=memory)

    def _read_back(self, buffers: list[Any]) -> None:
        """Wait, then map the outputs, which copies nothing on a CPU device and copies elsewhere."""
        self._queue.finish()
        if self._queue.device.type & self._cl.device_type.CPU:
            return
        for buffer in buffers:
            if isinstance(buffer, self._cl.Buffer):
                flags = self._cl.map_flags.READ
                mapped, _ = self._cl.enqueue_map_buffer(
                    self._queue, buffer, flags, 0, (buffer.size,), np.uint8
                )
                mapped.base.release(self._queue)
        self._queue.finish()


def _build(candidate: Candidate, folder: Path, deadline_s: float) -> Build:
    problem = _problem(candidate)
    if problem is not None:
        return Build(status=BuildStatus.FAILED, diagnostics=problem)
    source, symbol = source_of(candidate)
    work = folder / ".driver"
    work.mkdir()
    request, answer = work / "request.json", work / "answer.json"
    options = [*candidate.flags, _ARGUMENT_NAMES]
    request.write_text(json.dumps({"source": source, "symbol": symbol, "options": options}))
    done = run_tool(
        [sys.executable, "-P", "-m", "kernelwright.languages._opencl_compile", request, answer],
        deadline_s=deadline_s,
        folder=work,
        env={"POCL_CACHE_DIR": str(work), "PYOPENCL_NO_CACHE": "1"},
        closed=True,
    )
    if done.timed_out:
        return Build(status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{done.output}")
    if not answer.exists():
        return Build(status=BuildStatus.FAILED, diagnostics=done.output)
    result = json.loads(answer.read_text())
    shutil.rmtree(work, ignore_errors=True)
    diagnostics = f"{result.get('error', '')}\n{result['log']}".strip()[:20_000]
    if "error" in result:
        return Build(status=BuildStatus.FAILED, diagnostics=diagnostics)
    evidence: dict[str, Scalar] = result["evidence"]
    return Build(status=BuildStatus.OK, diagnostics=diagnostics, evidence=evidence)


def _problem(candidate: Candidate) -> str | None:
    if candidate.style != "destination":
        return f"an OpenCL kernel is called in style 'destination', not {candidate.style!r}"
    for flag in candidate.flags:
        if not flag.startswith(_ALLOWED_FLAGS):
            return f"flag {flag!r} is not allowed; expected one that starts {', '.join(_ALLOWED_FLAGS)}"
    try:
        source = source_of(candidate)[0]
        if not Stages(source).stages:
            Launch(source)
    except InputError as error:
        return str(error)
    return None
