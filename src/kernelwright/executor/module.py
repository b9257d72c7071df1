"""PTX → kernels that are called with a grid, a block and arguments.

    module = Module.load(ptx_text)
    run = module["add"](grid=4, block=256, arguments=[x, y, Uninitialised(out), n])
    assert run.ok, run.findings

Covers: PTX as docs/executor.md lists; arguments are numpy arrays, torch tensors on the CPU, numbers, bytes.
Does not cover: launches from within kernels, textures, more than one device.
"""

import ctypes
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from ..errors import NotFoundError, known_names
from . import _native, _ptxas
from ._errors import NotExecutedError
from ._layout import Layout, parameter_offsets
from ._limits import MOST_THREADS, Dims, Shape, cluster_of, refuse, shape_of
from ._memory import Memory, Span
from ._parser import parse
from ._translate import Translation, translate
from .results import Execution, counters_of, finding_of, status_of, trace_of

_CHECK, _RACES, _COUNT, _SYNCS, _HOPPER_SUMS, _CLUSTERED = 1, 2, 4, 8, 16, 32
_MOST_FINDINGS: Final = 64
_MOST_TRACED: Final = 100_000
_MOST_PRINTED: Final = 1 << 20
"""Bytes that `printf` may write in a launch: the buffer that a device has unless it is told otherwise."""
_LOCAL_BYTES: Final = 1 << 14
_RACE_BLOCKS: Final = (1 << 20) - 2
_CELL_BYTES: Final = 24
_FILL, _OTHER_FILLS = 0xFF, (0x7F, 0xFE, 0x00)
"""Every byte of shared memory at first: NaN and minus one; or else great, positive and negative, and nothing: a least
or largest value, a sum, a flag or a lowest bit differs under one of them."""
_UNINITIALISED, _SHUFFLE_SOURCE, _SHARED = 3, 22, 2


@dataclass(frozen=True)
class Options:
    """How a kernel is executed."""

    check: bool = True
    """Whether every access is checked: bounds, alignment, initialised bytes, barriers, copies."""
    races: bool = True
    """Whether data races are looked for; needs `check`, and 24 bytes for each word of global memory."""
    count: bool = True
    """Whether sectors and bank conflicts are counted."""
    hopper_sums: bool = False
    """Whether products of f16, bf16 and tf32 matrices are added as Hopper's tensor cores add, bit by bit, and not in
    float in the order of k: many times slower. Those of fp8, whose sums differ by more, always are."""
    seed: int = 0
    """Another order of blocks, warps and lanes of atomics for every seed but 0."""
    threads: int = 0
    """Threads of the host; 0 for as many as there are processors."""
    deadline_s: float = 60.0
    most_steps: int = 1 << 40
    """Warp-wide instructions after which the kernel is stopped."""
    trace: tuple[int, int] | None = None
    """Number of a block and of a thread in it whose steps are noted, in a module that was loaded to be traced."""


class Kernel:
    """One entry of a module."""

    def __init__(self, layout: Layout, translation: Translation, unread: str = "") -> None:
        self._layout = layout
        self._unread = unread
        self._registers = translation.registers
        self._translation = translation
        self._library, self._entry = _native.kernel(translation.source, translation.symbol)

    @property
    def name(self) -> str:
        """Return the entry's name in the PTX."""
        return self._translation.entry.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the PTX types of the parameters."""
        return tuple(p.type for p in self._translation.entry.parameters)

    @property
    def static_shared_bytes(self) -> int:
        """Return the bytes of shared memory that the kernel declares."""
        return self._layout.static_bytes()

    def __call__(self, grid: Shape, block: Shape, arguments: Sequence[Any], *, shared_bytes: int = 0,
                 cluster: Shape | None = None, options: Options | None = None) -> Execution:  # fmt: skip
        """Execute the kernel; arrays among the arguments hold its results afterwards.

        `cluster` is how many blocks of each dimension reach each other's shared memory; a kernel that says so itself
        (`.reqnctapercluster`, `__cluster_dims__`) needs none. Without either, each block is alone.

        Raises:
            InputError: where grid, block, shared memory or arguments cannot be launched.
        """
        shape = self._shape(grid, block, cluster, shared_bytes)
        memory = Memory.of_arguments(self._layout, self._translation.entry, arguments)
        return self._execute(shape, memory, shared_bytes, options or Options())

    def execute(self, grid: Shape, block: Shape, spans: Sequence[Span], parameters: bytes, *, shared_bytes: int = 0,
                cluster: Shape | None = None, options: Options | None = None,
                contents: tuple[bytes, bytes] | None = None) -> tuple[Execution, tuple[bytes, bytes]]:  # fmt: skip
        """Execute the kernel on raw parameters, whose pointers are the host's, into `spans`.

        Returns:
            How it ended, and the module's own variables with their shadow afterwards, to give to the next launch as
            `contents`.

        Raises:
            InputError: where grid, block or shared memory cannot be launched.
        """
        shape = self._shape(grid, block, cluster, shared_bytes)
        memory = Memory(self._layout, spans, contents)
        memory.parameters = memory.translated(parameters)
        run = self._execute(shape, memory, shared_bytes, options or Options())
        return run, memory.own_contents()

    @property
    def parameter_places(self) -> tuple[tuple[int, int], ...]:
        """Return the offset and size of each parameter among the parameters' bytes."""
        offsets, _ = parameter_offsets(self._translation.entry)
        return tuple((offsets[p.name], p.size) for p in self._translation.entry.parameters)

    @property
    def needs_grid(self) -> bool:
        """Tell whether it waits for its whole grid, so that CUDA must launch it cooperatively."""
        return self._translation.needs_grid

    @property
    def most_threads(self) -> int:
        """Return the most threads that a block may have."""
        return self._translation.entry.most_threads or MOST_THREADS

    def _execute(
        self, shape: tuple[Dims, Dims, Dims], memory: Memory, shared_bytes: int, options: Options
    ) -> Execution:
        notes: list[str] = []
        launch, kept = self._prepare(memory, shape, shared_bytes, options, notes)
        started = time.monotonic()
        _native.engine().kw_launch(ctypes.byref(launch))
        unknown = _only_unknown_values(launch, kept["findings"])
        if unknown and self._is_the_same(memory, shape, shared_bytes, options):
            launch.found = 0
            notes.append(f"{unknown}; no result depends on what stood there")
        time_s = time.monotonic() - started
        memory.copy_out()
        return self._result(launch, kept, memory, time_s, notes)

    def _is_the_same(
        self, memory: Memory, shape: tuple[Dims, Dims, Dims], shared_bytes: int, options: Options
    ) -> bool:
        """Tell whether the results are those that `memory` holds, whatever stands in shared memory at first."""
        data, shadow = memory.data, memory.shadow
        expected = data
        try:
            for fill in (_FILL, *_OTHER_FILLS):
                memory.fill()
                again, kept = self._prepare(memory, shape, shared_bytes, replace(options, threads=1), [])
                again.fill = fill
                _native.engine().kw_launch(ctypes.byref(again))
                # Sums by atomics depend on the order of blocks, which one thread does not change.
                expected = memory.data if fill == _FILL else expected
                same = again.status == 0 and np.array_equal(expected, memory.data)
                if not same or not _only_unknown_values(again, kept["findings"]):
                    return False
        finally:
            memory.data, memory.shadow = data, shadow
        return True

    def _shape(
        self, grid: Shape, block: Shape, cluster: Shape | None, shared_bytes: int
    ) -> tuple[Dims, Dims, Dims]:
        entry, declared = self._translation.entry, self._layout.static_bytes()
        dims, threads = shape_of(grid, "grid"), shape_of(block, "block")
        refuse(entry, dims, threads, (shared_bytes, declared), whole=self.needs_grid)
        return dims, threads, cluster_of(entry, dims, cluster)

    def _prepare(self, memory: Memory, shape: tuple[Dims, Dims, Dims], shared_bytes: int,
                 options: Options, notes: list[str]) -> tuple[_native.Launch, dict[str, Any]]:  # fmt: skip
        grid, block, cluster = shape
        t = self._translation
        shared = self._layout.shared_shadow(shared_bytes)
        blocks = grid[0] * grid[1] * grid[2]
        races = options.check and options.races and blocks <= _RACE_BLOCKS
        if options.check and options.races and not races:
            notes.append(f"races were not looked for: a grid of {blocks} blocks")
        global_shift, shared_shift = (g.bit_length() - 1 for g in (t.global_grain, t.shared_grain))
        kept: dict[str, Any] = {
            "shared": np.frombuffer(shared, np.uint8).copy(),
            "params": np.frombuffer(memory.parameters + bytes(8), np.uint8).copy(),
            "cells": np.zeros(((memory.size >> global_shift) + 2) * 3 if races else 0, np.uint64),
            "counts": np.zeros(2 * len(t.blocks), np.uint64),
            "sites": (_native.SiteCount * len(t.sites))(),
            "findings": (_native.Finding * _MOST_FINDINGS)(),
            "printed": np.zeros(_MOST_PRINTED if t.prints else 0, np.uint8),
            "trace": np.zeros(2 * _MOST_TRACED if options.trace else 0, np.uint64),
        }  # fmt: skip
        flags = (_CHECK if options.check else 0) | (_RACES if races else 0) | (_COUNT if options.count else 0)
        flags |= (_SYNCS if races and t.has_fences else 0) | (_HOPPER_SUMS if options.hopper_sums else 0)
        flags |= _CLUSTERED if any(cluster) else 0
        launch = _native.Launch(
            entry=self._entry, grid=(ctypes.c_uint32 * 3)(*grid), block=(ctypes.c_uint32 * 3)(*block),
            shared_bytes=len(shared), shared_dynamic=shared_bytes, param_bytes=len(memory.parameters),
            local_bytes=_LOCAL_BYTES, shared_shadow=kept["shared"].ctypes.data, params=kept["params"].ctypes.data,
            arena=memory.data.ctypes.data, shadow=memory.shadow.ctypes.data,
            cells=kept["cells"].ctypes.data if races else None, arena_bytes=memory.size, stack_bytes=t.stack_bytes,
            global_shift=global_shift, shared_shift=shared_shift, flags=flags,
            threads=options.threads or os.cpu_count() or 1, seed=options.seed, budget=options.most_steps,
            deadline_s=options.deadline_s, counts=kept["counts"].ctypes.data,
            sites=ctypes.addressof(kept["sites"]), basic_blocks=len(t.blocks), site_count=len(t.sites),
            findings=ctypes.addressof(kept["findings"]), most_findings=_MOST_FINDINGS,
            steps_of=kept["trace"].ctypes.data if options.trace else None, most_traced=_MOST_TRACED,
            traced_block=(options.trace or (0, 0))[0], traced_thread=(options.trace or (0, 0))[1],
            printed=kept["printed"].ctypes.data, most_printed=kept["printed"].size,
            cluster=(ctypes.c_uint32 * 3)(*(max(n, 1) for n in cluster)), fill=_FILL,
        )  # fmt: skip
        return launch, kept

    def _result(self, launch: _native.Launch, kept: dict[str, Any], memory: Memory, time_s: float,
                notes: list[str]) -> Execution:  # fmt: skip
        t = self._translation
        findings = [finding_of(kept["findings"][n], t.sites, memory.describe) for n in range(launch.found)]
        if launch.traced > _MOST_TRACED:
            notes.append(f"only the first {_MOST_TRACED} steps were noted")
        if launch.printed_bytes > kept["printed"].size:
            notes.append(f"printf wrote {launch.printed_bytes} bytes; the first {_MOST_PRINTED} are kept")
        if self._unread:
            notes.append(self._unread)
        if launch.races_lost:
            notes.append("a warp passed more barriers than the race detector counts: races may be missing")
        if status_of(launch.status) == "deadline":
            notes.append(f"no end within {launch.deadline_s:g} s: a loop without end, or too much work")
        if launch.status and launch.status_site < len(t.sites):
            at = t.sites[launch.status_site]
            notes.append(f"stopped at PTX line {at.line}{f', {at.source}' if at.source else ''}: {at.name}")
        return Execution(
            status_of(launch.status),
            tuple(sorted(findings, key=lambda f: (f.line, f.kind, f.other_line))),
            counters_of(t.blocks, kept["counts"].tolist(), t.sites, kept["sites"], launch),
            launch.steps,
            time_s,
            tuple(notes),
            self.name,
            trace_of(
                t.steps, self._registers, kept["trace"][: 2 * min(launch.traced, _MOST_TRACED)].tolist()
            ),
            kept["printed"][: min(launch.printed_bytes, _MOST_PRINTED)].tobytes().decode(errors="replace"),
        )


class Module(Mapping[str, Kernel]):
    """The kernels of a PTX file, translated when they are first asked for."""

    def __init__(self, ptx: str, *, traced: bool = False, assembled: bool = False) -> None:
        self._parsed = parse(ptx)
        self._ptx, self._assembled = ptx, assembled
        self._traced = traced
        self._layout = Layout(self._parsed)
        self._kernels: dict[str, Kernel] = {}

    @classmethod
    def load(cls, ptx: str, *, traced: bool = False, assembled: bool = False) -> Self:
        """Read PTX; before a kernel of it is built, ptxas reads it too where one is here.

        Args:
            ptx: The text.
            traced: Whether the steps of the thread that `Options.trace` names are noted, which is slow.
            assembled: Whether a ptxas has taken it already, as its compiler's has.

        Raises:
            PtxError: where it is no PTX.
        """
        return cls(ptx, traced=traced, assembled=assembled)

    @property
    def layout(self) -> Layout:
        """Return where the module's variables lie."""
        return self._layout

    def build(self) -> tuple[list[Path], list[str]]:
        """Build all kernels without loading any: the libraries, and why kernels are not executed that are not.

        Nothing of the PTX's is run or loaded: for a process that does not trust it.

        Raises:
            PtxError: where ptxas refuses what is executed.
        """
        parts, sources, refused = {_native.ENGINE: None}, [], []
        for name in self:
            try:
                sources.append(translate(self._parsed, self._layout, name, traced=self._traced).source)
                parts |= dict.fromkeys(_native.parts_for(sources[-1]))
            except NotExecutedError as error:
                refused.append(f"{name}: {error}")
        if sources:
            self._unread()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            kernels = pool.map(_native.kernel_library, sources)
            return [*pool.map(_native.part_library, parts), *kernels], refused

    @property
    def target(self) -> str:
        """Return the target of the PTX, for example `sm_80`."""
        return self._parsed.target

    def __getitem__(self, name: str) -> Kernel:
        """Return a kernel by its name; a C++ name is found by its unmangled beginning where that is unique.

        Raises:
            NotFoundError: where there is no such kernel.
            NotExecutedError: where it holds what the executor does not execute.
            PtxError: where ptxas refuses the module.
        """
        full = self._full_name(name)
        if full not in self._kernels:
            made = translate(self._parsed, self._layout, full, traced=self._traced)
            self._kernels[full] = Kernel(self._layout, made, self._unread())
        return self._kernels[full]

    def prepare(self) -> None:
        """Build all kernels, as many at once as there are processors; those that are not executed are left out."""
        names = [name for name in self if name not in self._kernels]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name, kernel in zip(names, pool.map(self._built, names), strict=True):
                if kernel is not None:
                    self._kernels[name] = kernel

    def _built(self, name: str) -> Kernel | None:
        try:
            made = translate(self._parsed, self._layout, name, traced=self._traced)
            return Kernel(self._layout, made, self._unread())
        except NotExecutedError:
            return None

    def _unread(self) -> str:
        """Say why ptxas has not read the PTX, if it has not; what it refuses is a `PtxError`."""
        return "" if self._assembled else _ptxas.unread(self._ptx)

    def __iter__(self) -> Iterator[str]:
        return (name for name, f in self._parsed.functions.items() if f.is_entry and f.defined)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _full_name(self, name: str) -> str:
        names = list(self)
        if name in names:
            return name
        alike = [n for n in names if n.startswith(f"_Z{len(name)}{name}")]
        if len(alike) == 1:
            return alike[0]
        raise NotFoundError(f"no kernel {name!r} in the PTX: {known_names(name, names)}")


def _only_unknown_values(launch: _native.Launch, findings: Sequence[_native.Finding]) -> str:
    """Say which values that nobody gave were read, if nothing else was found: they may have been discarded."""
    found = {(f.kind, f.space if f.kind == _UNINITIALISED else 0) for f in findings[: launch.found]}
    if launch.status or not found <= {(_UNINITIALISED, _SHARED), (_SHUFFLE_SOURCE, 0)}:
        return ""
    read = ["shared memory was read before it was written"] if (_UNINITIALISED, _SHARED) in found else []
    taken = ["lanes that take no part were asked for values"] if (_SHUFFLE_SOURCE, 0) in found else []
    return ", and ".join(read + taken)
