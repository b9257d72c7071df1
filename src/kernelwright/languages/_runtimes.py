"""OpenVINO and ONNX Runtime as native forms of a reference: converted at the first call, weights built in.

Covers: functions and modules of tensors, whose other arguments are built in too; float32 is computed in float32.
Does not cover: gradients, arguments or buffers that change; sizes that depend on data. What a runtime cannot convert
raises in the first call, in its own words.
"""

import contextlib
import copy
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import InputError, MissingToolError

RUNTIMES = ("openvino", "onnxruntime")
"""What references are converted for; extras of the same names install them."""
_Run = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
_Made = Callable[[torch.nn.Module, tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]], _Run]


def converted(symbol: Callable[..., Any], runtime: str, *, makes_modules: bool) -> Callable[..., Any]:
    """Return what answers as a function does, or a maker of modules that answer so, by a runtime.

    Args:
        symbol: The function, or the class.
        runtime: One of `RUNTIMES`.
        makes_modules: Whether it is a class, whose instances are converted with the weights of their first call.
    """
    if not makes_modules:
        return _Converted(_Function(symbol), runtime)

    @functools.wraps(symbol, updated=())
    def make(*init: Any, **keywords: Any) -> Any:
        module = symbol(*init, **keywords)
        module.forward = _Converted(module, runtime)
        return module

    return make


class _Converted:
    """Converts at the first call with arguments of some sizes, and runs that from there on."""

    def __init__(self, module: torch.nn.Module, runtime: str) -> None:
        self._module, self._make = module, _MAKERS[runtime]
        self._known: dict[Any, tuple[_Run, bool]] = {}

    def __call__(self, *arguments: Any) -> Any:
        tensors = tuple(a.contiguous() for a in arguments if isinstance(a, torch.Tensor))
        sizes = [(a.shape, a.dtype) if isinstance(a, torch.Tensor) else a for a in arguments]
        key = repr(sizes)
        if key in self._known:
            run, several = self._known[key]
            outputs = tuple(run(tensors))
        else:
            with on_all_cores():  # a first run may start threads, too
                run, several = self._known[key] = self._convert(arguments, tensors)
                outputs = tuple(run(tensors))
        return outputs if several else outputs[0]

    def _convert(self, arguments: tuple[Any, ...], tensors: tuple[torch.Tensor, ...]) -> tuple[_Run, bool]:
        inner = copy.copy(self._module)
        vars(inner).pop("forward", None)
        fixed = _Fixed(inner, arguments).eval() if not self._module.training else _Fixed(inner, arguments)
        with torch.no_grad():
            expected = fixed(*tensors)
            several = isinstance(expected, tuple | list)
            outputs = tuple(expected) if several else (expected,)
            if not all(isinstance(o, torch.Tensor) for o in outputs):
                raise InputError("results that are no tensors; a runtime's are a tensor or several")
            return self._make(fixed, tensors, outputs), several


@contextlib.contextmanager
def on_all_cores() -> Iterator[None]:
    """Let threads that are started inside run on every core that torch's threads have.

    Where OpenMP binds threads (`OMP_PROC_BIND`, as in the judge's workers), the calling one has a single core, which
    the threads of another runtime would inherit: all of them would share it.
    """
    torch.ones(1 << 20).exp_()  # torch's own threads are there now
    own = os.sched_getaffinity(0)
    every = set(own)
    for task in os.listdir("/proc/self/task"):  # noqa: PTH208  names alone
        with contextlib.suppress(ProcessLookupError):  # it has ended since
            every |= os.sched_getaffinity(int(task))
    os.sched_setaffinity(0, every)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


class _Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class _Fixed(torch.nn.Module):
    """A module of tensors alone: other arguments are as they were."""

    def __init__(self, module: torch.nn.Module, arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.module = module
        self.arguments = [None if isinstance(a, torch.Tensor) else (a,) for a in arguments]

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        return self.module(*(next(given) if a is None else a[0] for a in self.arguments))


def _openvino(
    module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, ...]
) -> _Run:
    ov = _imported("openvino")
    model = _openvino_model(ov, module, tensors)
    held = (*tensors, *outputs, *module.parameters(), *module.buffers())
    exact = all(t.dtype == torch.float32 or not t.is_floating_point() for t in held)
    settings = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "PERFORMANCE_HINT": "LATENCY"}
    settings |= {"INFERENCE_PRECISION_HINT": "f32"} if exact else {}
    request = ov.Core().compile_model(model, "CPU", settings).create_infer_request()
    shapes = [(o.shape, o.dtype) for o in outputs]

    def shared(tensor: torch.Tensor) -> Any:
        if tensor.dtype == torch.bfloat16:
            return ov.Tensor(tensor.view(torch.int16).numpy(), ov.Shape(tensor.shape), ov.Type.bf16)
        return ov.Tensor(tensor.numpy(), shared_memory=True)

    def run(given: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        results = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
        for place, tensor in enumerate(given):
            request.set_input_tensor(place, shared(tensor))
        for place, tensor in enumerate(results):
            request.set_output_tensor(place, shared(tensor))
        request.infer()
        return results

    return run


def _openvino_model(ov: Any, module: torch.nn.Module, tensors: tuple[torch.Tensor, ...]) -> Any:
    """Convert what `torch.jit.trace` sees, or where it has no rule for that, what `torch.export` sees."""
    try:
        return ov.convert_model(module, example_input=tensors, input=[tuple(t.shape) for t in tensors])
    except Exception as error:  # noqa: BLE001  whatever it raises, the other way may do
        try:
            return ov.convert_model(torch.export.export(module, tensors))
        except Exception:  # noqa: BLE001  the first way's message is the one that its users know
            raise error from None


def _onnxruntime(
    module: torch.nn.Module, tensors: tuple[torch.Tensor, ...], outputs: tuple[torch.Tensor, ...]
) -> _Run:
    ort, onnx = _imported("onnxruntime"), _imported("onnx")
    _imported("onnxscript")
    program = torch.onnx.export(module, tensors, dynamo=True, verbose=False)
    assert program is not None
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [[end.name for end in ends] for ends in (session.get_inputs(), session.get_outputs())]
    if (len(names[0]), len(names[1])) != (len(tensors), len(outputs)):
        raise InputError(f"the ONNX model has inputs {names[0]} and outputs {names[1]}; some were dropped")
    shapes = [(o.shape, o.dtype) for o in outputs]
    kinds = {
        dtype: getattr(onnx.TensorProto, kind)
        for dtype, kind in (
            (torch.float32, "FLOAT"), (torch.float64, "DOUBLE"), (torch.float16, "FLOAT16"), (torch.bool, "BOOL"),
            (torch.bfloat16, "BFLOAT16"), (torch.int64, "INT64"), (torch.int32, "INT32"), (torch.uint8, "UINT8"),
        )
    }  # fmt: skip

    def run(given: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        results = [torch.empty(shape, dtype=dtype) for shape, dtype in shapes]
        binding = session.io_binding()
        for bind, ends, sides in (
            (binding.bind_input, names[0], given), (binding.bind_output, names[1], results),
        ):  # fmt: skip
            for name, t in zip(ends, sides, strict=True):
                bind(name, "cpu", 0, kinds[t.dtype], list(t.shape), t.data_ptr())
        session.run_with_iobinding(binding)
        return results

    return run


_MAKERS: dict[str, _Made] = {"openvino": _openvino, "onnxruntime": _onnxruntime}


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        extra = "openvino" if name == "openvino" else "onnxruntime"
        raise MissingToolError(f"no module {error.name!r}; pip install 'kernelwright[{extra}]'") from error
