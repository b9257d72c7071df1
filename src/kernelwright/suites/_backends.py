"""MultiKernelBench's backends: what its registry has, which one a kernel is for, and what this machine does with it.

A kernel for CUDA or Triton is executed here, one for MUSA as the CUDA that it is but for names, and one of CANN's
operators by its tiling function. What is left can only be read here: its row says which tool and hardware it needs.
"""

import ast
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import MissingToolError, TaskError
from ..records import Candidate, SourceFile, Task
from ..tasks import candidate_of
from ._ascend_operator import operator_candidate

_HARDWARE: Final = {
    "cuda": "an NVIDIA GPU", "npu": "an Ascend NPU", "xpu": "an Intel GPU", "musa": "a Moore Threads GPU",
    "xla": "a TPU",
}  # fmt: skip
_DEVICE: Final = re.compile(r"torch\.device\(['\"](\w+)|xm\.(xla)_device\(")
_BY_MUSA: Final = (
    (re.compile(r"^import torch_musa$", re.MULTILINE), ""),
    (re.compile(r"from torch_musa\.utils\.musa_extension import"), "from torch.utils.cpp_extension import"),
    (re.compile(r"\bmusa(?=_sources|_runtime|[A-Z])"), "cuda"),
)
"""What of a kernel for MUSA has other names than in CUDA, as the benchmark's own examples of both show."""
_FENCED: Final = re.compile(r"```(?:python|cpp|json)?(.*?)```", re.DOTALL)
_MARKS: Final = (
    ("ascendc_direct_launch", '"ascendc_direct_launch"'), ("catlass", "catlass/"), ("ascendc", "host_operator_src"),
    ("tilelang_ascend", "tilelang"), ("musa", "torch_musa"), ("sycl", "sycl_sources"), ("pallas", "torch_xla"),
    ("triton", "import triton"), ("cuda", "cuda_sources"),
)  # fmt: skip
"""What only a kernel for a backend has in its text; the first that is found decides."""
_BUILT_BY: Final = {
    "ascendc_direct_launch": "bisheng of CANN", "catlass": "msopgen of CANN", "tilelang_ascend": "tilelang for Ascend",
    "sycl": "icpx", "pallas": "torch_xla",
}  # fmt: skip
_OPERATOR: Final = {
    "host_tiling_src": "op_host/{}_tiling.h", "host_operator_src": "op_host/{}.cpp", "kernel_src": "op_kernel/{}.cpp",
}  # fmt: skip
"""Where the benchmark writes the texts of an operator of CANN."""


@dataclass(frozen=True)
class Backend:
    """One backend of the registry."""

    name: str
    """As kernels name it."""
    hardware: str
    """What runs its kernels."""


def backends_in(data: Path) -> dict[str, Backend]:
    """Return the backends that a checkout registers, by name; one that derives from another has its hardware."""
    hardware: dict[str, str] = {}
    found: dict[str, str] = {}
    bases: dict[str, str] = {}
    for file in sorted((data / "backends").glob("*_backend.py")):
        text = file.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and (name := _registered(node)):
                device = _DEVICE.search(ast.unparse(node))
                hardware[file.stem] = _HARDWARE.get((device[1] or device[2]) if device else "", "")
                imported = re.findall(r"^from backends\.(\w+) import \w+Backend$", text, re.MULTILINE)
                found[name], bases[file.stem] = file.stem, imported[0] if imported else ""
    return {
        name: Backend(
            name, hardware[stem] or hardware.get(bases[stem], "") or "hardware that it does not name"
        )
        for name, stem in found.items()
    }


def _registered(node: ast.ClassDef) -> str:
    for one in node.decorator_list:
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "register_backend":
            return str(ast.literal_eval(one.args[0]))
    return ""


def code_in(response: str) -> str:
    """Return the first block of code of a model's response, as the benchmark takes it; all of it if it has none.

    Example:
        >>> code_in("Here it is:\\n```python\\nimport torch\\n```\\nIt is fast.")
        'import torch'
    """
    found = _FENCED.search(response)
    return found[1].strip() if found else response


def backend_of(text: str) -> str:
    """Return the backend that a kernel's text is for; empty for plain Python.

    Example:
        >>> backend_of("from torch_musa.utils.musa_extension import load_inline"), backend_of("import torch")
        ('musa', '')
    """
    return next((name for name, mark in _MARKS if mark in text), "")


def what_runs_it(text: str, backends: Mapping[str, Backend]) -> str:
    """Say what a kernel needs to run by the benchmark's rules; empty if that is only a CPU."""
    name = backend_of(text)
    if not name:
        return ""
    hardware = (
        backends[name].hardware if name in backends else "hardware that this checkout has no backend for"
    )
    return f"it is for the backend {name!r}, whose tests need {hardware}"


def for_backend(text: str, name: str, task: Task) -> Candidate:
    """Return a kernel for a backend as our judge takes it; `name` is that of its problem.

    Raises:
        MissingToolError: its backend builds with a tool that this does not have.
        TaskError: nothing in it can be called as a kernel.
    """
    backend = backend_of(text)
    if backend in _BUILT_BY:
        raise MissingToolError(
            f"it was read and not built: the backend {backend!r} builds with {_BUILT_BY[backend]}, which is not here"
        )
    if backend == "ascendc":
        return _operator(text, name, task)
    if backend == "musa":
        for pattern, other in _BY_MUSA:
            text = pattern.sub(other, text)
    return candidate_of((SourceFile(path=f"{name}.py", text=text),), task)


def _operator(text: str, name: str, task: Task) -> Candidate:
    """Return an operator of CANN whose files are the strings of a Python file."""
    texts = {
        node.targets[0].id: node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    if lacking := [one for one in _OPERATOR if not isinstance(texts.get(one), str)]:
        raise TaskError(
            f"{name} lacks {', '.join(lacking)}; expected the texts of an operator of CANN as strings"
        )
    with tempfile.TemporaryDirectory() as folder:
        for symbol, path in _OPERATOR.items():
            file = Path(folder, path.format(f"{name}_custom"))
            file.parent.mkdir(exist_ok=True)
            file.write_text(str(texts[symbol]))
        return operator_candidate(file, task)
