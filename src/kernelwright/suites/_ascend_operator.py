"""An operator of CANN, `op_host` and `op_kernel` as they are → a candidate that calls it by its tiling function."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from ..errors import TaskError
from ..records import Candidate, SourceFile, Split, Task, TensorSpec

_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">].*$', re.MULTILINE)
_ENTRY: Final = re.compile(r'extern\s+"C"\s+__global__\s+__aicore__\s+void\s+(\w+)\s*\(([^)]*)\)')
_TILING_DATA: Final = re.compile(r"\bBEGIN_TILING_DATA_DEF\(\s*(\w+)")
_ATTRIBUTE: Final = re.compile(r'\bAttr\(\s*"(\w+)"')
_OWN: Final = frozenset({"kernel_operator.h"})
"""What is included from our headers; CANN's other headers have their place in `kw_host.h`."""
_TYPES: Final = {
    "float32": ("float", "DT_FLOAT"), "float16": ("half", "DT_FLOAT16"), "bfloat16": ("bfloat16_t", "DT_BF16"),
    "int8": ("int8_t", "DT_INT8"), "uint8": ("uint8_t", "DT_UINT8"), "int16": ("int16_t", "DT_INT16"),
    "int32": ("int32_t", "DT_INT32"), "int64": ("int64_t", "DT_INT64"), "bool": ("bool", "DT_BOOL"),
}  # fmt: skip
"""The type and the constant that a kernel finds for a dtype."""
_CONSTANTS: Final = {
    "DT_FLOAT": 0, "DT_FLOAT16": 1, "DT_INT8": 2, "DT_INT32": 3, "DT_UINT8": 4, "DT_INT16": 6, "DT_INT64": 9,
    "DT_BOOL": 12, "DT_BF16": 27,
}  # fmt: skip
_HARNESS: Final = """\
#include "kw_operator.h"
#include "kernelwright.h"
namespace host {{
namespace ge {{ using namespace ::ge; }}
namespace gert {{ using namespace ::gert; }}
namespace ops {{ using namespace ::ops; }}
{hosts}
}}
{used}
using KwTiling = host::optiling::KwTilingOf{operator};
{defined}
{kernels}
KW_OPERATOR(run, host::ops::{operator}, {apart}, {entry}({arguments}))
"""


def is_operator(kernel: Path) -> bool:
    """Tell whether a file is the kernel of an operator, with its host's half next to it."""
    return kernel.parent.name == "op_kernel" and (kernel.parent.parent / "op_host").is_dir()


def operator_candidate(kernel: Path, task: Task) -> Candidate:
    """Return the candidate of an operator's folder, for the dtypes of the task's first workload.

    Raises:
        TaskError: the folder has not one operator with one kernel, or it takes other tensors than the task has.
    """
    home = kernel.parent.parent
    files = {p.relative_to(home).as_posix(): p.read_text(errors="replace") for p in _files(home)}
    sources = [
        SourceFile(path=_placed(path), text=_included(path, text, files)) for path, text in files.items()
    ]
    host = "\n".join(text for path, text in files.items() if path.startswith("op_host/"))
    entry = _ENTRY.search(files[f"op_kernel/{kernel.name}"])
    operator = re.search(r"^\s*OP_ADD\(\s*(\w+)", host, re.MULTILINE)
    if not entry or not operator:
        raise TaskError(
            f'{str(home)!r} has no operator that this can call: expected one `extern "C" __global__ __aicore__ void`'
            " in the kernel, and OP_ADD in op_host"
        )
    inputs, outputs = (re.findall(rf'\b{kind}\(\s*"(\w+)"', host) for kind in ("Input", "Output"))
    pointers = [*(f"op.in({i})" for i in range(len(inputs))), *(f"op.out({i})" for i in range(len(outputs)))]
    pointers += ["op.workspace()", "op.tiling()"]
    taken = entry[2].count("GM_ADDR")
    if taken != len(pointers):
        raise TaskError(
            f"the kernel {entry[1]!r} takes {taken} pointers, and its operator says {len(pointers)}: "
            f"inputs {inputs}, outputs {outputs}, workspace and tiling data"
        )
    text = _HARNESS.format(
        hosts=_lines(path for path in files if path.startswith("op_host/") and path.endswith(".cpp")),
        used="\n".join(f"using host::optiling::{name};" for name in _TILING_DATA.findall(host)),
        operator=operator[1], apart=_registered(host, operator[1]), defined=_dtypes([*inputs, *outputs], host, task),
        kernels=_lines([f"op_kernel/{kernel.name}"]), entry=f"kw_kernel_{entry[1]}", arguments=", ".join(pointers),
    )  # fmt: skip
    return Candidate(
        sources=(SourceFile(path="operator.cpp", text=text), *sources), language="ascendc",
        entry="operator.cpp:run", style="destination", flags=("-O1",),
    )  # fmt: skip


def _files(home: Path) -> Iterator[Path]:
    for folder in ("op_host", "op_kernel"):
        yield from sorted(p for p in (home / folder).rglob("*") if p.suffix in {".cpp", ".h"})


def _placed(path: str) -> str:
    """Return where a file lies: included by the harness, so no file of its own to compile."""
    return f"{path}.h" if path.endswith(".cpp") else path


def _included(path: str, text: str, files: dict[str, str]) -> str:
    """Keep the includes of the operator's files, of C++ and of our header, and give its kernel another name."""
    here = PurePosixPath(path).parent

    def kept(match: re.Match[str]) -> str:
        own = match[1] in _OWN or (here / match[1]).as_posix() in files or "." not in match[1]
        return match[0] if own else ""

    return _ENTRY.sub(r'extern "C" __global__ __aicore__ void kw_kernel_\1(\2)', _INCLUDE.sub(kept, text))


def _registered(host: str, operator: str) -> str:
    """Return the name of a tiling function that is registered apart from the operator, or of none."""
    apart = re.search(rf"\bIMPL_OP_OPTILING\(\s*{operator}\s*\)", host)
    return f"host::optiling::kw_registered_{operator}" if apart else "::ops::Registered()"


def _lines(paths: Iterator[str] | list[str]) -> str:
    return "\n".join(f'#include "{_placed(path)}"' for path in paths)


def _dtypes(names: list[str], host: str, task: Task) -> str:
    """Define what a kernel's file finds for each tensor, and the constants that it may compare with."""
    workload = task.split(Split.SEARCH)[0]
    tensors = [one for one in (*workload.arguments, *workload.state) if isinstance(one, TensorSpec)]
    specs = [*tensors, *workload.outputs]
    if len(specs) != len(names):
        raise TaskError(
            f"the operator has {len(names)} tensors ({', '.join(names)}) and the problem {len(specs)}"
        )
    scalars = sum(not isinstance(one, TensorSpec) for one in workload.arguments)
    attributes = _ATTRIBUTE.findall(host)
    if len(attributes) != scalars:
        raise TaskError(
            f"the operator has the attributes {attributes}, and the problem is called with {scalars} numbers: what its "
            "constructor is given, an operator is not"
        )
    lines = [f"#define {name} {value}" for name, value in _CONSTANTS.items()]
    for name, spec in zip(names, specs, strict=True):
        kind, constant = _TYPES.get(spec.dtype, ("", ""))
        declared = re.search(rf'put\(\s*"{name}"\s*\).*?\.DataType(?:List)?\(\s*\{{([^}}]*)', host, re.DOTALL)
        if not kind or (declared and constant not in re.findall(r"DT_\w+", declared[1])):
            raise TaskError(
                f"the operator's tensor {name!r} is {spec.dtype} in this problem, which it does not take"
            )
        lines += [f"#define DTYPE_{name.upper()} {kind}", f"#define ORIG_DTYPE_{name.upper()} {constant}"]
    return "\n".join(lines)
