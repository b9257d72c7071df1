"""Torch's OpInfo → the overloads of aten operators that one sample calls alone, kept for the next time."""

import hashlib
import importlib.util
import json
import sys
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..config import Settings
from ..records import Record
from ..system.dispatch_mode import DispatchMode

_SHORT = {
    torch.bfloat16: "bf16", torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.complex64: "c64",
    torch.complex128: "c128", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.bool: "b8", torch.uint8: "u8",
}  # fmt: skip


class Sampled(Record):
    """What samples call one overload alone."""

    op: str
    """OpInfo's name of the operator."""
    variant: str
    """OpInfo's name of its variant; empty if it has one only."""
    indices: tuple[int, ...]
    """Which of its samples call the overload."""
    call: str
    """The largest of them, as calls are recorded."""
    ranges: tuple[tuple[float, float], ...]
    """Least and greatest value of each tensor in it."""


def samples() -> dict[str, Sampled]:
    """Return, by overload, the samples that call it alone, traced once for a version of torch."""
    folder = Settings.from_environment().cache / "suites"
    name = hashlib.sha256(f"{torch.__version__} {Path(__file__).read_text()}".encode()).hexdigest()[:16]
    file = folder / f"opinfo-{name}.json"
    if not file.is_file():
        traced = {overload: found.model_dump(mode="json") for overload, found in sorted(_traced())}
        folder.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(traced))
        fresh.replace(file)
    return {
        overload: Sampled.model_validate(found) for overload, found in json.loads(file.read_text()).items()
    }


def _traced() -> Iterator[tuple[str, Sampled]]:
    """Trace every operator's samples, as the benchmark does."""
    known: set[str] = set()
    for op in _listed():
        named = "." in op.name and "nn.functional" not in op.name
        if named or op.name == "nonzero_static" or torch.float32 not in op.supported_dtypes("cpu"):
            continue
        for overload, found in _of(op).items():
            if overload not in known:
                known.add(overload)
                yield overload, found


def _listed() -> list[Any]:
    """Return torch's list of operators, which asks for a package that only its tests use."""
    lacks = importlib.util.find_spec("expecttest") is None
    if lacks:
        sys.modules["expecttest"] = stub = types.ModuleType("expecttest")
        stub.__dict__["TestCase"] = unittest.TestCase
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    finally:
        if lacks:
            del sys.modules["expecttest"]
    return list(op_db)


def _of(op: Any) -> dict[str, Sampled]:
    """Return what one operator's samples call."""
    try:
        drawn = list(op.sample_inputs("cpu", torch.float32))
    except Exception:  # noqa: BLE001  torch's own generators fail for some operators
        return {}
    by_overload: dict[str, list[tuple[int, str, tuple[tuple[float, float], ...], int]]] = {}
    for index, sample in enumerate(drawn):
        try:
            called = _called(op, sample)
            text, tensors = recorded((sample.input, *sample.args), sample.kwargs)
        except Exception:  # noqa: BLE001  the benchmark passes over whatever a sample raises
            continue
        if called is not None:
            size = sum(t.numel() for t in tensors)
            by_overload.setdefault(called, []).append((index, text, tuple(map(_range, tensors)), size))
    return {
        overload: Sampled(
            op=op.name, variant=op.variant_test_name, indices=tuple(f[0] for f in found), call=largest[1],
            ranges=largest[2],
        )
        for overload, found in by_overload.items()
        for largest in [max(found, key=lambda f: f[3])]
    }  # fmt: skip


def _called(op: Any, sample: Any) -> str | None:
    """Return the one overload that a sample calls, if calling that alone gives the same."""
    calls: list[Any] = []

    class Tracing(DispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(func)
            return func(*args, **(kwargs or {}))

    with Tracing():
        expected = op.op(sample.input, *sample.args, **sample.kwargs)
    if len(calls) != 1 or calls[0].namespace != "aten":
        return None
    got = calls[0](sample.input, *sample.args, **sample.kwargs)
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2, equal_nan=True)
    return str(calls[0]).removeprefix("aten.")


def recorded(positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, list[torch.Tensor]]:
    """Return a call as benchmarks record calls, and its tensors in order.

    Raises:
        ValueError: an argument has no such form.

    Example:
        >>> recorded((torch.ones(2, 3), [1]), {"dtype": torch.float32})[0]
        "((T([2, 3], f32), [1]), {'dtype': f32})"
    """
    tensors: list[torch.Tensor] = []

    def said(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
            stride = "" if value.is_contiguous() else f", stride={tuple(value.stride())}"
            return f"T({list(value.shape)}, {_SHORT[value.dtype]}{stride})"
        if isinstance(value, torch.dtype):
            return _SHORT[value]
        if isinstance(value, torch.memory_format | torch.layout):
            return str(value)
        if isinstance(value, torch.device):
            return "'cpu'"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(map(said, value)) + "]"
        if value is None or isinstance(value, bool | int | float | str):
            return repr(value)
        raise ValueError(f"no argument of a recorded call: {type(value).__name__}")

    arguments = "".join(f"{said(value)}, " for value in positional)
    rest = ", ".join(f"{name!r}: {said(value)}" for name, value in named.items())
    text = arguments.removesuffix(", ") + ("," if len(positional) == 1 else "")
    return f"(({text}), {{{rest}}})", tensors


def _range(tensor: torch.Tensor) -> tuple[float, float]:
    if not tensor.numel() or tensor.is_complex() or tensor.dtype == torch.bool:
        return (0.0, 1.0)
    finite = tensor[torch.isfinite(tensor)].double()
    return (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
