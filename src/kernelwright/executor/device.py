"""A device without a GPU: what programs allocate, and their launches, executed one after the other.

One for a process, since CUDA's runtime has one: `device()`.

Covers: memory of the runtime's and tensors that calls are given, each byte's state kept from launch to launch; the
module's own variables; launches of every loaded library by the kernel's name.
Does not cover: pointers that lie in memory instead of among a kernel's arguments, which point nowhere (a finding);
bytes that torch left uninitialised; concurrency: a launch has ended when the call returns.
"""

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import InputError, KernelwrightError
from . import _cudart
from ._errors import FaultError
from ._layout import WRITTEN
from ._memory import Span, Uninitialised, span_of
from .module import Kernel, Module, Options
from .results import Execution

_MADE, _GONE, _WRITTEN, _COPIED, _ASKED = range(5)
_SUCCESS, _INVALID_VALUE, _INVALID_SYMBOL, _LAUNCH_FAILURE = 0, 1, 13, 719
KEPT_RUNS: Final = 256
"""Launches that are kept at most."""


class Device:
    """Holds allocations, loaded modules and what launches came to."""

    def __init__(self) -> None:
        self.options = Options()
        """How the next launches are executed."""
        self.runs: list[Execution] = []
        """How the latest launches ended."""
        self.told: Callable[[KernelwrightError], None] | None = None
        """What is called at once where a launch is at fault or not executed; else that is raised at the call's end."""
        self._spans: dict[int, Span] = {}
        self._lent: list[Span] = []
        self._modules: dict[int, Module] = {}
        self._contents: dict[int, tuple[bytes, bytes]] = {}
        self._failed: KernelwrightError | None = None
        self._runtime: Any = None
        self._hooks: _cudart.Hooks | None = None

    def start(self, runtime: Path) -> None:
        """Load CUDA's runtime from its library; once for a process."""
        if self._runtime is not None:
            return
        self._runtime = _cudart.load(str(runtime))
        self._hooks = _cudart.Hooks(
            _cudart.LAUNCH(self._guarded(self._launch)), _cudart.MEMORY(self._guarded(self._memory)),
            _cudart.SYMBOL(self._guarded(self._symbol)), _cudart.ATTRIBUTES(self._guarded(self._attributes)),
        )  # fmt: skip
        self._runtime.kw_set_hooks(ctypes.byref(self._hooks))

    def note(self, runs: Sequence[Execution]) -> None:
        """Keep how launches ended."""
        self.runs = [*self.runs, *runs][-KEPT_RUNS:]

    def prepare(self) -> None:
        """Translate the kernels of every library that was loaded, before the first launch."""
        for binary in range(self._runtime.kw_binaries()):
            self._module(binary).prepare()

    def call(self, function: Callable[..., Any], *arguments: Any, outputs: int = 0) -> Any:
        """Call host code that may launch kernels on tensors of the CPU.

        Args:
            function: The host code.
            arguments: What it is given; kernels may touch its tensors.
            outputs: How many of the last arguments hold nothing yet.

        Raises:
            FaultError: a launch was found at fault.
            NotExecutedError: a kernel holds what the executor does not execute.
        """
        fresh = len(arguments) - outputs
        given = [
            Uninitialised(a) if n >= fresh and hasattr(a, "data_ptr") else a for n, a in enumerate(arguments)
        ]
        spans = [self.span(a, f"argument {n}") for n, a in enumerate(given)]
        with self.lending([s for s in spans if s is not None]):
            try:
                result = function(*arguments)
            except Exception:
                self._raise()
                raise
            self._raise()
        return result

    @contextlib.contextmanager
    def lending(self, spans: Sequence[Span]) -> Iterator[None]:
        """Let kernels touch some bytes in the block."""
        before = len(self._lent)
        self._lent += spans
        try:
            yield
        finally:
            del self._lent[before:]

    def lend(self, value: Any, name: str) -> None:
        """Let kernels touch an array, a tensor or an `Uninitialised` one until the call ends."""
        span = self.span(value, name)
        if span is not None and not any((s.host, s.size) == (span.host, span.size) for s in self._lent):
            self._lent.append(span)

    def touched(self, tensor: Any) -> None:
        """Note that a tensor's bytes were written by the host."""
        span = span_of(tensor, "")
        if span is not None:
            self._write(span.host, span.size)

    def span(self, value: Any, name: str) -> Span | None:
        """Return the bytes of an array or tensor; of an `Uninitialised` one with the state of each byte."""
        span = span_of(value, name)
        if span is None or span.initialised:
            return span
        return Span(name, span.host, span.size, span.writable, False, np.zeros(span.size, np.uint8))

    def _raise(self) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            if self._runtime is not None:
                self._runtime.cudaGetLastError()  # it is told here; the next call starts without it
            raise failed

    def _guarded(self, hook: Callable[..., int]) -> Callable[..., int]:
        """Keep what a hook raises for the call's end: it cannot pass through the host code."""

        @functools.wraps(hook)
        def call(*arguments: Any) -> int:
            try:
                return hook(*arguments)
            except KernelwrightError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001  (raised again at the call's end)
                self._fail(FaultError(f"the executor failed: {error!r}"))
            return _LAUNCH_FAILURE

        return call

    def _module(self, binary: int) -> Module:
        if binary not in self._modules:
            ptx = _cudart.ptx_at(int(self._runtime.kw_binary(binary)))
            if not ptx:
                raise InputError("a library holds no PTX; build it with code=compute_NN and --no-compress")
            self._modules[binary] = Module.load(ptx, assembled=True)  # when it was built
        return self._modules[binary]

    def _kernel(self, binary: int, name: bytes) -> Kernel:
        return self._module(binary)[name.decode()]

    def _launch(self, binary: int, name: bytes, grid: Any, block: Any, cluster: Any, shared: int, arguments: Any,
                cooperative: int) -> int:  # fmt: skip
        if self._failed is not None:
            return _LAUNCH_FAILURE
        kernel = self._kernel(binary, name)
        if kernel.needs_grid and not cooperative:
            raise FaultError(
                f"{kernel.name} waits for its whole grid; it must be launched by cudaLaunchCooperativeKernel"
            )
        raw = bytearray()
        for number, (offset, size) in enumerate(kernel.parameter_places):
            raw += bytes(offset - len(raw)) + ctypes.string_at(arguments[number], size)
        run, self._contents[binary] = kernel.execute(
            [grid[n] for n in range(3)], [block[n] for n in range(3)], self._pointed_at(bytes(raw)), bytes(raw),
            shared_bytes=shared, cluster=[max(cluster[n], 1) for n in range(3)] if cluster[0] else None,
            options=self.options, contents=self._contents.get(binary),
        )  # fmt: skip
        self.note([run])
        if run.ok:
            return _SUCCESS
        self._fail(FaultError(blame(kernel.name, run)))
        return _LAUNCH_FAILURE

    def _fail(self, error: KernelwrightError) -> None:
        self._failed = self._failed or error
        if self.told is not None:
            self.told(error)

    def _pointed_at(self, raw: bytes) -> list[Span]:
        words = np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64).tolist()
        spans = [*self._spans.values(), *self._lent]
        return [s for s in spans if any(s.host <= w <= s.host + s.size for w in words)]

    def _memory(self, what: int, at: int, size: int, source: int) -> int:
        if what == _MADE:
            number = sum(1 for s in self._spans.values() if s.name.startswith("allocation")) + 1
            self._spans[at] = Span(f"allocation {number}", at, size, True, False, np.zeros(size, np.uint8))
        elif what == _GONE:
            self._spans.pop(at, None)
        elif what == _ASKED:
            spans = (*self._spans.values(), *self._lent)
            return _SUCCESS if any(s.host <= at < s.host + s.size for s in spans) else _INVALID_VALUE
        else:
            self._write(at, size, self._states(source, size) if what == _COPIED else WRITTEN)
        return _SUCCESS

    def _write(self, at: int, size: int, states: Any = WRITTEN) -> None:
        for span in (*self._spans.values(), *self._lent):
            low, high = max(at, span.host), min(at + size, span.host + span.size)
            if low < high and span.shadow is not None:
                given = states if isinstance(states, int) else states[low - at : high - at]
                span.shadow[low - span.host : high - span.host] = given

    def _states(self, at: int, size: int) -> Any:
        """Return for each byte whether it was written; bytes of the host were."""
        for span in (*self._spans.values(), *self._lent):
            if span.shadow is not None and span.host <= at and at + size <= span.host + span.size:
                return span.shadow[at - span.host : at - span.host + size]
        return WRITTEN

    def _symbol(self, binary: int, name: bytes, offset: int, host: int, size: int, to_device: int) -> int:
        layout = self._module(binary).layout
        variable = layout.variable(name.decode())
        if variable is None:
            return _INVALID_SYMBOL
        start, most = variable
        if offset + size > most:
            return _INVALID_VALUE
        data, shadow = self._contents.get(binary) or layout.image()
        place = start + offset
        if to_device:
            data = data[:place] + ctypes.string_at(host, size) + data[place + size :]
            self._contents[binary] = data, shadow
        else:
            ctypes.memmove(host, data[place : place + size], size)
        return _SUCCESS

    def _attributes(self, binary: int, name: bytes, facts: Any) -> int:
        kernel = self._kernel(binary, name)
        facts[0], facts[1] = kernel.static_shared_bytes, kernel.most_threads
        return _SUCCESS


@functools.lru_cache
def device() -> Device:
    """Return this process's device."""
    return Device()


def blame(name: str, run: Execution) -> str:
    """Say in a sentence what was found in a launch of the named kernel."""
    if not run.findings:
        return f"{plain(name)} ended by {run.status}" + (
            f": {'; '.join(reversed(run.notes))}" if run.notes else ""
        )
    left = len(run.findings) - 1
    more = f" (and {left} more finding{'s' * (left > 1)})" if left else ""
    return f"{run.findings[0]}{more}; kernel {plain(name)}"


def plain(name: str) -> str:
    """Return a C++ kernel's name as its source has it, or as it is where no C++ library is here to tell.

    Example:
        >>> plain("softmax_kernel")
        'softmax_kernel'
    """
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
    except (OSError, AttributeError):
        return name
    demangle.restype, status = ctypes.c_void_p, ctypes.c_int()
    made = demangle(name.encode(), None, None, ctypes.byref(status)) if name.startswith("_Z") else None
    if not made:
        return name
    whole = ctypes.string_at(made).decode()
    ctypes.CDLL(None)["free"](ctypes.c_void_p(made))
    depth, end = 0, len(whole)
    while whole.endswith(")") and (depth or end == len(whole)):  # the arguments, which may hold parentheses
        end -= 1
        depth += (whole[end] == ")") - (whole[end] == "(")
    return whole[:end].removeprefix("void ")
