"""What a worker reports of outputs and of its own process; facts for the judge, never verdicts."""

import inspect
import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, _compile

from ._channel import Message
from ._types import OutputFact

_WORKERS = tuple(
    f"kernelwright.sandbox.{name}" for name in ("_worker_state", "_worker_main", "_cuda", "_channel")
)
"""What the judge runs in a worker next to the candidate."""
_WATCHED = (
    "torch", "torch.nn.functional", "torch.cuda", "torch.testing", "torch.utils.data", "torch.random", "numpy",
    "time", "json", "socket", "os", "ctypes", "builtins", "gc", "sys", *_WORKERS,
)  # fmt: skip
_CLASSES = (Tensor, torch.nn.Module, torch.autograd.Function, torch.cuda.Event, torch.cuda.Stream)
_SET_BY_COMPILER = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"})
_SET_BY_LANGUAGE = {
    "triton": frozenset({"TRITON_INTERPRET"}),
    "helion": frozenset({"TF_CPP_MIN_LOG_LEVEL", "TPU_SKIP_MDS_QUERY"}),
}
"""What the loader of a language sets in its worker; in another language the candidate did."""
_TORCHS_PTXAS = ("TRITON_PTXAS_PATH", str(Path(torch.__file__).parent / "_inductor" / "bin" / "ptxas"))
"""What torch's compiler sets where torch brings an assembler of its own; another one is a candidate's doing."""
_COMPILER = str(_compile.__file__)
_GUARD = str(Path(torch.__file__).parent / "_dynamo" / "mutation_guard.py")
"""Where Dynamo defines what it puts in the place of methods of `Module` on its first use."""
_COMPILERS_RECURSION = 2000
"""The limit to which torch's compiler raises a lower one, and leaves it."""
_PRECISIONS = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.conv", "mkldnn.matmul", "mkldnn.rnn")
"""Backends of torch that each have a precision of products in float32."""
_MOVING = frozenset(
    {"sys.last_exc", "sys.last_type", "sys.last_value", "sys.last_traceback", "builtins._", "torch.Storage"}
)


def flatten(result: Any) -> list[Tensor]:
    """Flatten what a kernel returned to its tensors, in order.

    Example:
        >>> len(flatten((torch.ones(1), [torch.ones(2)])))
        2
    """
    if isinstance(result, Tensor):
        if result.layout is not torch.strided:
            raise TypeError(f"the kernel returned a {result.layout} tensor; expected a strided one")
        return [result]
    if isinstance(result, dict):
        return flatten(list(result.values()))
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in flatten(item)]
    raise TypeError(f"the kernel returned {type(result).__name__}; expected a tensor or a tuple of tensors")


def span(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses of the tensor's storage: first byte, one past the last."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return start, start + storage.nbytes()


class Spans:
    """Spans of addresses, joined where they meet, in which others are looked for in logarithmic time.

    Example:
        >>> spans = Spans([(30, 40), (0, 10), (5, 20), (7, 7)])
        >>> [spans.meet(*one) for one in ((19, 21), (20, 30), (39, 50), (40, 41), (8, 8))]
        [True, False, True, False, False]
    """

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(s for s in spans if s[0] < s[1]):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def meet(self, start: int, end: int) -> bool:
        """Tell whether any of the bytes from `start` up to `end` lies in a span."""
        first = bisect_right(self._ends, start)
        return start < end and first < len(self._starts) and self._starts[first] < end


def places(result: Any) -> Any:
    """Say where a result's bytes lie, as briefly as possible: this is inside the timed request.

    Returns:
        For each tensor its address if it is contiguous, else [address, bytes, negation]; a single plain
        tensor stands alone; none where the result is not made of tensors that have bytes.
    """
    if type(result) is Tensor and result.is_contiguous() and not result.is_complex():
        return result.data_ptr()
    try:
        return [_place(tensor) for tensor in flatten(result)]
    except Exception:  # noqa: BLE001 - the worker's edge: a candidate's own class may do anything
        return None


def _place(tensor: Tensor) -> Any:
    lazy = tensor.is_conj() + 2 * tensor.is_neg()
    if tensor.is_contiguous() and not lazy:
        return tensor.data_ptr()
    return [tensor.data_ptr(), extent(tensor.shape, tensor.stride(), tensor.element_size()), lazy]


def extent(shape: Sequence[int], strides: Sequence[int], item_bytes: int) -> int:
    """Count the bytes from the first to the last element that strides reach.

    Example:
        >>> extent((2, 3), (4, 1), 4)
        28
    """
    if 0 in shape:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * item_bytes


def _reach(tensor: Tensor) -> tuple[int, int]:
    """Return the addresses of the tensor's own bytes: first, one past the last."""
    start = tensor.data_ptr()
    return start, start + extent(tensor.shape, tensor.stride(), tensor.element_size())


def output_fact(
    tensor: Tensor, position: int, inputs: list[tuple[int, int]], outputs: list[Tensor]
) -> OutputFact:
    """Describe one output: what its storage shares with inputs, and its bytes with earlier outputs."""
    a, b = span(tensor)
    reached = [_reach(t) for t in outputs]
    first, last = reached[position]
    return OutputFact(
        plain=type(tensor) is Tensor and not vars(tensor),
        kind=f"{type(tensor).__module__}.{type(tensor).__qualname__}"[:100],
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        requires_grad=tensor.requires_grad,
        aliases=tuple(n for n, (c, d) in enumerate(inputs) if a < d and c < b),
        shares=tuple(n for n, (c, d) in enumerate(reached[:position]) if first < d and c < last),
    )


def _readable(read: Callable[[], object]) -> object:
    """Return what a switch says; torch refuses to read the older of two names once the newer was set."""
    try:
        return read()
    except RuntimeError:
        return "set by another name"


class Witness:
    """What the process looked like before any candidate was loaded, to say what changed."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._environment: dict[str, str] = {}
        self._flags: dict[str, str] = {}
        self._objects: list[Any] = []
        self._set_by_us = _SET_BY_COMPILER
        self.known: dict[str, frozenset[str]] = {}
        """Names in modules of Python's and torch's that were there before the candidate."""

    def expect(self, language: str) -> None:
        """Allow what the loader of the candidate's language sets; before any of its code runs."""
        self._set_by_us = _SET_BY_COMPILER | _SET_BY_LANGUAGE.get(language, frozenset())

    def remember(self) -> None:
        """Take the picture to compare with."""
        found = _watched_names()
        self._objects = list(found.values())
        self._names = {name: id(value) for name, value in found.items()}
        self.known = {name: frozenset(vars(sys.modules[name])) for name in _WATCHED if name in sys.modules}
        self.remember_settings()

    def remember_settings(self) -> None:
        """Take the environment variables and global switches to compare with, as the worker has set them."""
        self._environment = dict(os.environ)
        self._flags = _flags()

    def report(self) -> Message:
        """Say what changed since."""
        now = _watched_names()
        patched = [
            n
            for (n, i), was in zip(self._names.items(), self._objects, strict=True)
            if n not in now or (id(now[n]) != i and not _wrapped_by_compiler(now[n], was))
        ]
        changed = (self._environment.items() ^ dict(os.environ).items()) - {_TORCHS_PTXAS}
        return {
            "flags": sorted(name for name, value in _flags().items() if self._flags.get(name) != value),
            "patched": sorted(patched)[:100],
            "environment": sorted({name for name, _ in changed} - self._set_by_us)[:100],
            "folder": os.getcwd(),  # noqa: PTH109
        }


WITNESS = Witness()
"""The witness of this process; the zygote takes its picture, and workers inherit it."""


def _watched_names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _WATCHED:
        module = sys.modules.get(name)
        if module is not None:
            found |= {f"{name}.{k}": v for k, v in vars(module).items() if _stable(v)}
    for kind in (*_CLASSES, *_worker_classes()):
        for name in dir(kind):
            value = inspect.getattr_static(kind, name, None)
            if callable(value) or isinstance(value, property):
                found[f"{kind.__module__}.{kind.__qualname__}.{name}"] = value
    return {name: value for name, value in found.items() if name not in _MOVING}


def _worker_classes() -> list[type]:
    modules = [sys.modules[name] for name in _WORKERS if name in sys.modules]
    return [c for m in modules for c in vars(m).values() if inspect.isclass(c) and c.__module__ == m.__name__]


def _stable(value: Any) -> bool:
    return callable(value) or isinstance(value, (ModuleType, property, staticmethod, classmethod))


def _wrapped_by_compiler(value: Any, original: Any) -> bool:
    """Tell whether torch's compiler did it: it wraps `manual_seed` and guards `Module` on first use."""
    code = getattr(value, "__code__", None)
    if code is None:
        return False
    wrapped = code.co_filename == _COMPILER and inspect.unwrap(value) is inspect.unwrap(original)
    return wrapped or code.co_filename == _GUARD


def _flags() -> dict[str, str]:
    backends = torch.backends
    flags = {
        "default_dtype": torch.get_default_dtype(),
        "default_device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast_cpu": torch.is_autocast_enabled("cpu"),
        "autocast_cuda": torch.is_autocast_enabled("cuda"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": _readable(torch.get_float32_matmul_precision),
        "threads": torch.get_num_threads(),
        "mkldnn": backends.mkldnn.enabled,
        "cudnn": backends.cudnn.enabled,
        "cudnn_tf32": _readable(lambda: backends.cudnn.allow_tf32),
        "cudnn_benchmark": backends.cudnn.benchmark,
        "cuda_tf32": _readable(lambda: backends.cuda.matmul.allow_tf32),
        "cuda_fp16_reduction": backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
        "cuda_bf16_reduction": backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
        "flush_denormal": torch.tensor([1e-310], dtype=torch.float64).mul(1).item() == 0,
        "floating_point_rounding": 1.0 + 2.0**-53 + 2.0**-53,
        "recursion_limit": max(sys.getrecursionlimit(), _COMPILERS_RECURSION),
    }
    for name in _PRECISIONS:  # where nothing says otherwise, "none" is the same as "ieee"
        flags[f"fp32_precision of {name}"] = attrgetter(name)(backends).fp32_precision.replace("none", "ieee")
    return {name: str(value) for name, value in flags.items()}
