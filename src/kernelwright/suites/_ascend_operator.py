"""An operator of CANN, `op_host` and `op_kernel` as they are → a candidate that calls it by its tiling function."""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from ..errors import TaskError
from ..records import Candidate, SourceFile, Split, Task, TensorSpec
from ..tasks import Problem

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
{standard}
namespace host {{
namespace ge {{ using namespace ::ge; }}
namespace gert {{ using namespace ::gert; }}
namespace ops {{ using namespace ::ops; }}
{hosts}
}}
{used}
using KwTiling = host::optiling::KwTilingOf{operator};
static const ::gert::Named kw_attributes[] = {{{attributes}{{"", {{}}}}}};
static const ::ge::DataType kw_results[] = {{{results}}};
{defined}
{kernels}
KW_OPERATOR(run, host::ops::{operator}, {apart}, {entry}({arguments}))
"""


def is_operator(kernel: Path) -> bool:
    """Tell whether a file is the kernel of an operator, with its host's half next to it."""
    return kernel.parent.name == "op_kernel" and (kernel.parent.parent / "op_host").is_dir()


def operator_files(kernel: Path) -> dict[str, Path]:
    """Return an operator's files by path within its folder, the kernel first."""
    home = kernel.parent.parent
    return {p.relative_to(home).as_posix(): p for p in (kernel, *_files(home))}


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
    workload = task.split(Split.SEARCH)[0]
    tensors = [one for one in (*workload.arguments, *workload.state) if isinstance(one, TensorSpec)]
    types = _types([*inputs, *outputs], [*tensors, *workload.outputs], host, len(inputs))
    text = _HARNESS.format(
        standard="\n".join(sorted({f"#include <{name}>" for text in files.values() for name in _standard(text)})),
        attributes="".join(f'{{"{name}", {value}}}, ' for name, value in _attributes(host, task).items()),
        results=", ".join(f"::ge::{one}" for one in types[len(inputs) :]),
        hosts=_lines(path for path in files if path.startswith("op_host/") and path.endswith((".cpp", ".cc"))),
        used="\n".join(f"using host::optiling::{name};" for name in _TILING_DATA.findall(host)),
        operator=operator[1], apart=_registered(host, operator[1]), defined=_defined([*inputs, *outputs], types),
        kernels=_lines([f"op_kernel/{kernel.name}"]), entry=f"kw_kernel_{entry[1]}", arguments=", ".join(pointers),
    )  # fmt: skip
    return Candidate(
        sources=(SourceFile(path="operator.cpp", text=text), *sources), language="ascendc",
        entry="operator.cpp:run", style="destination", flags=("-O1",),
    )  # fmt: skip


def _files(home: Path) -> Iterator[Path]:
    for folder in ("op_host", "op_kernel"):
        yield from sorted(p for p in (home / folder).rglob("*") if p.suffix in {".cpp", ".cc", ".h"})


def _placed(path: str) -> str:
    """Return where a file lies: included by the harness, so no file of its own to compile."""
    return f"{path}.h" if path.endswith((".cpp", ".cc")) else path


def _included(path: str, text: str, files: dict[str, str]) -> str:
    """Keep the includes of the operator's files, of C++ and of our header, and give its kernel another name."""
    here = PurePosixPath(path).parent

    def kept(match: re.Match[str]) -> str:
        own = match[1] in _OWN or (here / match[1]).as_posix() in files
        return match[0] if own else ""

    return _ENTRY.sub(r'extern "C" __global__ __aicore__ void kw_kernel_\1(\2)', _INCLUDE.sub(kept, text))


def _registered(host: str, operator: str) -> str:
    """Return the name of a tiling function that is registered apart from the operator, or of none."""
    apart = re.search(rf"\bIMPL_OP_OPTILING\(\s*{operator}\s*\)", host)
    return f"host::optiling::kw_registered_{operator}" if apart else "::ops::Registered()"


def _lines(paths: Iterator[str] | list[str]) -> str:
    return "\n".join(f'#include "{_placed(path)}"' for path in paths)


def _standard(text: str) -> list[str]:
    """Return the headers of C++ that a file includes: they come before all, outside the namespaces of the halves."""
    return [name for name in _INCLUDE.findall(text) if "." not in name]


def _attributes(host: str, task: Task) -> dict[str, str]:
    """Return the attributes that the problem's constructor is given under their names, as they stand in C++."""
    names = _ATTRIBUTE.findall(host)
    workload = task.split(Split.SEARCH)[0]
    scalars = sum(not isinstance(one, TensorSpec) for one in workload.arguments)
    if len(names) == scalars:
        return {}
    made = dict(zip(map(_plain, _constructor(task)), Problem(task).init_arguments(workload), strict=False))
    given = {name: _cpp(made[_plain(name)]) for name in names if _plain(name) in made}
    if len(names) - len(given) != scalars or "" in given.values():
        raise TaskError(
            f"the operator has the attributes {names}, and the problem is called with {scalars} numbers: what its "
            f"constructor is given under other names ({', '.join(made) or 'nothing'}), an operator is not"
        )
    return given


def _constructor(task: Task) -> list[str]:
    """Return the names of what the reference's class is made with, in order."""
    wanted = task.reference.entry.rpartition(":")[2]
    for node in ast.parse(task.reference.files[0].text).body:
        if isinstance(node, ast.ClassDef) and node.name == wanted:
            made = (f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
            return [one.arg for f in made for one in (*f.args.posonlyargs, *f.args.args)][1:]
    return []


def _plain(name: str) -> str:
    """Return a name as C++ and Python spell it alike."""
    return name.replace("_", "").lower()


def _cpp(value: object) -> str:
    """Return an attribute's value as it stands in C++; empty for what is no attribute."""
    if isinstance(value, (bool, int, float)):
        return f"::gert::number({json.dumps(value)})"
    if isinstance(value, str):
        return f"::gert::text({json.dumps(value)})"
    if isinstance(value, Sequence) and all(isinstance(one, int) for one in value):
        return f"::gert::list({{{', '.join(str(int(one)) for one in value)}}})"
    return ""


def _types(names: Sequence[str], specs: Sequence[TensorSpec], host: str, inputs: int) -> list[str]:
    """Return the constant of each tensor's dtype as the operator has it.

    Truth values that a problem wants as numbers are converted afterwards, as the benchmark's own calls do.
    """
    if len(specs) != len(names):
        raise TaskError(
            f"the operator has {len(names)} tensors ({', '.join(names)}) and the problem {len(specs)}"
        )
    types = []
    for at, (name, spec) in enumerate(zip(names, specs, strict=True)):
        constant = _TYPES.get(spec.dtype, ("", ""))[1]
        declared = re.search(rf'put\(\s*"{name}"\s*\).*?\.DataType(?:List)?\(\s*\{{([^}}]*)', host, re.DOTALL)
        allowed = set(re.findall(r"DT_\w+", declared[1])) if declared else {constant}
        if at >= inputs and allowed == {"DT_BOOL"} and constant:
            constant = "DT_BOOL"
        if constant not in allowed or not constant:
            raise TaskError(
                f"the operator's tensor {name!r} is {spec.dtype} in this problem, which it does not take"
            )
        types.append(constant)
    return types


def _defined(names: Sequence[str], types: Sequence[str]) -> str:
    """Define what a kernel's file finds for each tensor, and the constants that it may compare with."""
    kinds = {constant: kind for kind, constant in _TYPES.values()}
    lines = [f"#define {name} {value}" for name, value in _CONSTANTS.items()]
    for name, constant in zip(names, types, strict=True):
        lines += [
            f"#define DTYPE_{name.upper()} {kinds[constant]}",
            f"#define ORIG_DTYPE_{name.upper()} {constant}",
        ]
    return "\n".join(lines)
