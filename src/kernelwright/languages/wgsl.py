"""WGSL; style `destination`. Runs through `wgpu` on any adapter: a GPU, or Vulkan in software on the CPU.

A candidate is one `.wgsl` file. The task's tensors are the storage buffers in the order of their bindings,
outputs last; arguments that are not tensors are not passed. The launch lines are those of OpenCL, with
`groups` (workgroups, a number or a tuple of up to three, each at most 65535) for `global`; a name that they
define sets the `override` constant of that name.

    // scale.wgsl, entry "scale.wgsl:scale", called as scale(x)
    // launch: n = prod(x.shape)
    // launch: groups = cdiv(n, 64)
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    override n: i32;
    @compute @workgroup_size(64)
    fn scale(@builtin(global_invocation_id) id: vec3u) {
      let i = i32(id.x);
      if (i < n) { y[i] = 2.5 * x[i]; }
    }

A source of several kernels has `// kernel: name(x, y)` lines (`_stages.py`): their names are the buffers'.
Covers: tensors of the CPU, copied to the adapter and back in every call. A buffer of `f32` takes float32, and half
precision widened; one of `i32` takes bool, int32, and int64 with values below 2^30, so that sums of two fit.
Does not cover: other dtypes and larger integers (`Unsupported`); NaN and infinity, for which WGSL guarantees nothing.
"""

import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..records import Build, BuildStatus, Candidate, TensorSpec
from ._cache import cached_build
from ._destination import Destination
from ._entry import source_of, split_entry
from ._launch import Geometry, Launch, View
from ._process import run_tool
from ._protocol import Availability, Kernel
from ._stages import Stage, Stages

_REMEDY = "pip install 'kernelwright[webgpu]', and a Vulkan driver: apt-get install mesa-vulkan-drivers"
_BINDING = re.compile(r"@binding\((\d+)\)\s*var<storage(?:,\s*(\w+))?>\s*(\w+)\s*:\s*([^;]*)")
_TAKES = {
    torch.float32: (torch.float32, torch.float16, torch.bfloat16),
    torch.int32: (torch.int32, torch.int64, torch.bool),
}
"""Element type of a buffer → the tensor dtypes that it takes."""
LARGEST = 1 << 30
"""Integer arguments must be below this, so that the sum of two fits 32 bits."""
_OVERRIDE = re.compile(r"^\s*(?:@id\(\d+\)\s*)?override\s+(\w+)", re.MULTILINE)
_MOST_GROUPS = 65535
_LOOK_S = 60.0
_LIMITS = (
    "max-storage-buffers-per-shader-stage", "max-storage-buffer-binding-size", "max-buffer-size",
    "max-compute-workgroup-storage-size",
)  # fmt: skip


class WGSL:
    """WGSL candidates."""

    name = "wgsl"
    compiles_when_called = True

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings.from_environment()

    def available(self) -> Availability:
        """Report which adapter is used."""
        found = described()
        return (
            Availability(True, found.adapter)
            if found.adapter
            else Availability(False, found.missing, _REMEDY)
        )

    def toolchain(self) -> str:
        """Name wgpu and the adapter."""
        found = described()
        return f"wgpu {found.version} on {found.adapter}" if found.adapter else "no WebGPU"

    def build(self, candidate: Candidate, *, deadline_s: float = 120.0) -> Build:
        """Check the comment lines and compile every kernel once, in a separate process."""
        status = self.available()
        if not status.ok:
            return status.missing()
        return cached_build(
            self._settings.cache, candidate, self.toolchain(), lambda folder: _build(candidate, folder, deadline_s)
        )  # fmt: skip

    def load(self, candidate: Candidate, artefact: Path, outputs: tuple[TensorSpec, ...]) -> Kernel:  # noqa: ARG002
        """Compile the shader in this process and return a `Destination` bound to the outputs."""
        return Destination(Shader(*source_of(candidate)), outputs)

    def timeable(self, device: str) -> bool:
        """Whether times are meaningful: tensors are the CPU's, and copies are part of a call."""
        return device == "cpu"


class Shader:
    """A compiled source: called with tensors in the order of the bindings, writes into the last ones.

    Pipelines and buffers are kept for every set of shapes that it was called with.
    """

    def __init__(self, source: str, entry: str) -> None:
        self._device = gpu_device()
        self._module = self._device.create_shader_module(code=source)
        self._program = Program(source, entry)
        self._ready: dict[tuple[tuple[int, ...], ...], _Ready] = {}

    def __call__(self, *arguments: Any) -> None:
        """Copy in, run, copy out."""
        self._check(arguments)
        ready = self._made(arguments)
        queue = self._device.queue
        for i, buffer in ready.bound.items():
            queue.write_buffer(buffer, 0, self._converted(i, arguments[i]).numpy())
        encoder = self._device.create_command_encoder()
        for pipeline, group, geometry in ready.launches:
            run = encoder.begin_compute_pass()
            run.set_pipeline(pipeline)
            run.set_bind_group(0, group)
            run.dispatch_workgroups(*geometry.global_size)
            run.end()
        queue.submit([encoder.finish()])
        for i in ready.written:
            found = memoryview(queue.read_buffer(ready.bound[i])).cast("B")
            held = self._program.held[self._program.called[i]]
            arguments[i].copy_(torch.frombuffer(found, dtype=held).view(arguments[i].shape))

    def _converted(self, place: int, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor in its buffer's type; integers must fit, unless the call only writes them."""
        name = self._program.called[place]
        given = tensor.dtype is torch.int64 and name not in self._program.written
        if given and max(int(tensor.max()), -int(tensor.min())) >= LARGEST:
            raise NotImplementedError(f"Unsupported: {name} holds integers of 2^30 or more; WGSL has 32 bits")
        return tensor.to(self._program.held[name])

    def _check(self, arguments: tuple[Any, ...]) -> None:
        names = self._program.called
        if len(arguments) != len(names):
            raise InputError(
                f"the shader binds {len(names)} buffers ({', '.join(names)}); the task passes {len(arguments)}, "
                "outputs included"
            )
        for name, argument in zip(names, arguments, strict=True):
            if name not in self._program.bindings:
                continue
            takes = _TAKES[self._program.held[name]]
            if not isinstance(argument, torch.Tensor) or argument.dtype not in takes:
                listed = ", ".join(str(dtype).removeprefix("torch.") for dtype in takes)
                raise NotImplementedError(
                    f"Unsupported: {name} is not a tensor of {listed}, which its buffer takes"
                )
            if argument.device.type != "cpu" or argument.numel() == 0:
                raise NotImplementedError(f"Unsupported: {name} is empty or not a tensor of the CPU")

    def _made(self, arguments: tuple[Any, ...]) -> "_Ready":
        key = tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else (a,) for a in arguments)
        if key not in self._ready:
            self._ready[key] = self._make(arguments)
        return self._ready[key]

    def _make(self, arguments: tuple[Any, ...]) -> "_Ready":
        program = self._program
        given = {
            n: View(tuple(a.shape), str(a.dtype).removeprefix("torch.")) if isinstance(a, torch.Tensor) else a
            for n, a in zip(program.called, arguments, strict=True)
        }
        bound = {
            i: self._buffer(arguments[i].numel())
            for i, n in enumerate(program.called)
            if n in program.bindings
        }
        by_name = {program.called[i]: buffer for i, buffer in bound.items()}
        by_name |= {n: self._buffer(count) for n, count in program.stages.views(given)[1].items()}
        launches = []
        for stage, geometry in zip(program.launched, program.geometries(given), strict=True):
            constants = {name: value for name, value in geometry.derived.items() if name in program.overrides}
            compute = {"module": self._module, "entry_point": stage.kernel, "constants": constants}
            pipeline = self._device.create_compute_pipeline(layout="auto", compute=compute)
            entries = [
                {"binding": program.bindings[n], "resource": {"buffer": b, "offset": 0, "size": b.size}}
                for n, b in ((name, by_name[name]) for name in stage.arguments)
            ]
            group = self._device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
            launches.append((pipeline, group, geometry))
        written = [i for i in bound if program.called[i] in program.written]
        return _Ready(bound, launches, written)

    def _buffer(self, elements: int) -> Any:
        from wgpu import BufferUsage

        usage = BufferUsage.STORAGE | BufferUsage.COPY_SRC | BufferUsage.COPY_DST
        return self._device.create_buffer(size=4 * max(1, elements), usage=usage)


@dataclass(frozen=True)
class _Ready:
    """Everything made for one set of shapes."""

    bound: dict[int, Any]
    """Buffers by the place of their tensor in the call."""
    launches: list[tuple[Any, Any, Geometry]]
    written: list[int]


class Program:
    """A source's declarations: buffers by binding, and the kernels to run."""

    def __init__(self, source: str, entry: str) -> None:
        found = sorted((int(number), *rest) for number, *rest in _BINDING.findall(source))
        self.bindings = {name: number for number, _, name, _ in found}
        """Binding by the buffer's name."""
        self.held = {name: torch.int32 if "i32" in type_ else torch.float32 for *_, name, type_ in found}
        """Element type of each buffer, by name."""
        self.written = {name for _, access, name, _ in found if access == "read_write"}
        """Buffers that a kernel may write."""
        self.overrides = frozenset(_OVERRIDE.findall(source))
        """Constants that launch lines may set."""
        self.stages = Stages(_with_groups(source))
        self.called = self.stages.arguments or tuple(
            n for n in self.bindings if n not in self.stages.temporaries
        )
        """The call's tensors by name, outputs last."""
        alone = (
            () if self.stages.stages else (Stage(entry, tuple(self.bindings), Launch(_with_groups(source))),)
        )
        self.launched = self.stages.stages or alone
        """The kernels in order."""

    def geometries(self, arguments: dict[str, Any]) -> list[Geometry]:
        """Evaluate every launch; raises `NotImplementedError` if one has too many groups."""
        views, _ = self.stages.views(arguments)
        found = [stage.launch.geometry(views) for stage in self.launched]
        if any(max(g.global_size) > _MOST_GROUPS for g in found):
            raise NotImplementedError(f"Unsupported: more than {_MOST_GROUPS} workgroups along one axis")
        return found


def _with_groups(source: str) -> str:
    return re.sub(r"(//\s*launch:\s*)groups(\s*=)", r"\1global\2", source)


@dataclass(frozen=True)
class Described:
    """What a separate process found: a driver loaded by the judge would stay there, with its LLVM and threads."""

    version: str = ""
    """Version of wgpu."""
    adapter: str = ""
    """Name of the adapter; empty if there is none."""
    missing: str = ""
    """What is missing."""


@functools.cache
def described() -> Described:
    """Query the adapter in a new process, once."""
    if find_spec("wgpu") is None:
        return Described(missing="no wgpu")
    done = run_tool([sys.executable, "-P", "-m", "kernelwright.languages._wgsl_compile"], deadline_s=_LOOK_S)
    try:
        return Described(**json.loads(done.output.strip().splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        return Described(missing=f"no WebGPU adapter: {done.output.strip()[-200:]}")


@functools.cache
def adapter() -> Any:
    """Load the driver into this process and return its adapter.

    Triton is imported first if installed: it has an LLVM of its own, and a process that has the
    software driver's crashes when it is loaded later, which torch does implicitly.

    Raises:
        MissingToolError: no driver.
    """
    with suppress(ImportError):
        import triton  # noqa: F401
    import wgpu

    try:
        with _silent():
            return wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError as error:
        raise MissingToolError(f"no WebGPU adapter: {error}") from error


@functools.cache
def gpu_device() -> Any:
    """Return the adapter's device, with its maximum storage limits."""
    found = adapter()
    limits = {name: found.limits[name] for name in _LIMITS if name in found.limits}
    return found.request_device_sync(required_limits=limits)


@contextmanager
def _silent() -> Iterator[None]:
    """Discard what drivers print about missing displays: they write to the file descriptor directly."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _build(candidate: Candidate, folder: Path, deadline_s: float) -> Build:
    if candidate.style != "destination" or candidate.flags:
        return Build(
            status=BuildStatus.FAILED,
            diagnostics=f"a WGSL kernel is called in style 'destination' and has no flags; given "
            f"{candidate.style!r} and {list(candidate.flags)}",
        )
    try:
        source, entry = source_of(candidate)
        Program(source, entry)
    except InputError as error:
        return Build(status=BuildStatus.FAILED, diagnostics=str(error))
    path = folder / split_entry(candidate.entry)[0]
    done = run_tool(
        [sys.executable, "-P", "-m", "kernelwright.languages._wgsl_compile", path, entry],
        deadline_s=deadline_s, folder=folder, closed=True,
    )  # fmt: skip
    if done.timed_out:
        return Build(status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{done.output}")
    status = BuildStatus.OK if done.returncode == 0 else BuildStatus.FAILED
    return Build(status=status, diagnostics="" if done.returncode == 0 else done.output[-20_000:])
