"""Watch what a candidate's calls are made of: torch's operators, and launches of kernels of its own.

Installed by the worker before any of the candidate is loaded, in workers that are never timed.

Covers: operators dispatched on any Python thread, with the elements that they touch; launches through TVM FFI
(C++, CUDA), OpenCL and Triton, and of languages that say how (`watch_launches`); what launches write can be spoilt,
and launches can be refused.
Does not cover: native code reached in another way (`ctypes`, numpy), which counts as no kernel of its own; a
candidate that looks for the watch and takes it off; `_operator_isolation` covers that case.
"""

import importlib
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ._channel import Message
from ._operator_isolation import spoil

Launch = Callable[..., Any]


class Watch:
    """What was seen since the last `turn`, and what becomes of launches."""

    def __init__(self) -> None:
        self._mode = "see"
        self._operators: dict[str, int] = {}
        self._launches = 0

    def turn(self, mode: str) -> Message:
        """Forget what was seen and go on in a mode: `see`, `spoil` what launches write, or `refuse` them."""
        self._mode, self._operators, self._launches = mode, {}, 0
        return {}

    def report(self) -> Message:
        """Say what was seen: the most elements that each operator touched, and how many launches there were."""
        return {"operators": self._operators, "launches": self._launches}

    def install(self, language: object, *, executed: bool = False) -> None:
        """Wrap what launches go through, and make new threads log too.

        Args:
            language: The candidate's.
            executed: Whether its kernels are executed from their PTX, not run as the language itself would.
        """
        import tvm_ffi

        load_module = tvm_ffi.load_module
        setattr(tvm_ffi, "load_module", lambda *a, **k: _Library(load_module(*a, **k), self))  # noqa: B010
        if getattr(language, "by_triton", False):
            if not executed and (start := getattr(language, "start", None)):
                start()
            self._wrap_triton()
        elif watch := getattr(language, "watch_launches", None):
            watch(self.watched)
        begin = threading.Thread.run

        def run(thread: threading.Thread) -> None:
            with _Operators(self):
                begin(thread)

        setattr(threading.Thread, "run", run)  # noqa: B010

    def around(self, kernel: Any, language: str) -> Any:
        """Return a loaded kernel whose entry is watched, where its language does not go through TVM FFI."""
        if language == "opencl":
            return kernel.through(self.watched)
        return kernel

    def run(self, plan: list[tuple[Launch, tuple[Any, ...]]]) -> list[Any]:
        """Call everything in a plan and log the operators."""
        with _Operators(self):
            return [kernel(*arguments) for kernel, arguments in plan]

    def saw(self, operator: str, elements: int) -> None:
        """Note one operator."""
        self._operators[operator] = max(elements, self._operators.get(operator, 0))

    def watched(self, entry: Launch) -> Launch:
        """Wrap one kernel."""

        def launch(*arguments: Any, **named: Any) -> Any:
            if self._mode == "refuse":
                raise RuntimeError("this launch was refused")
            self._launches += 1
            if self._mode != "spoil":
                return entry(*arguments, **named)
            with torch.utils._python_dispatch._disable_current_modes():
                tensors = [t for t in tree_leaves((arguments, named)) if isinstance(t, Tensor) and t.numel()]
                before = [t.clone() for t in tensors]
                result = entry(*arguments, **named)
                written = [t for t, b in zip(tensors, before, strict=True) if not torch.equal(t, b)]
                written += [t for t in tree_leaves(result) if isinstance(t, Tensor) and t.numel()]
                for tensor in written or tensors[-1:]:
                    spoil(tensor)
            return result

        return launch

    def _wrap_triton(self) -> None:
        interface = importlib.import_module("triton.runtime.jit").KernelInterface
        choose = interface.__getitem__
        interface.__getitem__ = lambda kernel, grid: self.watched(choose(kernel, grid))


class _Dispatch:
    """What a mode does at every operator; apart from the mode, whose own method would first import the compiler."""

    _watch: Watch

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            touched = [t.numel() for t in tree_leaves((args, kwargs, result)) if isinstance(t, Tensor)]
            known = [
                n for n in touched if isinstance(n, int)
            ]  # a compiler's tensors of other sizes hold nothing
            self._watch.saw(func.overloadpacket.__name__, max(known, default=0))
        return result


class _Operators(_Dispatch, TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class is untyped
    """Tells a watch of every operator that is dispatched on the thread that entered it."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's class is untyped
        self._watch = watch


class _Library:
    """A library loaded through TVM FFI whose kernels are watched."""

    def __init__(self, library: Any, watch: Watch) -> None:
        self._library, self._watch = library, watch

    def get_function(self, name: str, *rest: Any) -> Launch:
        """Return one exported kernel."""
        return self._watch.watched(self._library.get_function(name, *rest))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        return self._watch.watched(found) if callable(found) else found
