"""Splits Inductor's module into kernels and the code that calls them, and joins several workloads."""

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ...languages.cpp import header
from ...records import Candidate, SourceFile
from ._harvest import Described, Generated, HarvestError

_PRELUDE = '''"""What TorchInductor ({mode}) writes for {task}: allocate, call the kernels, return the outputs.

`kernels` is the library built from the C++ files next to this one.
"""

import torch

{names}

'''
RUN = '''
def describe(tensors):
    """Return what a call was written for: shape, strides and dtype of every tensor."""
    return tuple((tuple(t.shape), t.stride(), str(t.dtype)) for t in tensors)


CALLS = {{
{calls}
}}


def run(*arguments):
    """Compute the op on the sizes it was generated for."""
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    call = CALLS.get(describe(tensors))
    if call is None:
        raise NotImplementedError("Unsupported: generated for other sizes, strides or dtypes")
    results = call(tensors)
    return results[0] if len(results) == 1 else tuple(results)
'''
"""The function that is called; `CALLS` has one for the tensors of each workload."""
_START_OF = (
    "static char* start_of(const DLTensor* t) { return static_cast<char*>(t->data) + t->byte_offset; }\n"
)
_NATIVE = ("mm", "addmm", "bmm", "baddbmm", "convolution")
"""Inductor's extern kernels that are torch functions with the same name and arguments."""


@dataclass(frozen=True)
class Part:
    """One module of Inductor's: its kernels by name, and the function that calls them."""

    kernels: dict[str, tuple[list[str], str]]
    call: str
    names: dict[str, str]
    """By name: the statements that bind the torch names used in `call`."""
    inputs: list[Described]

    def sources(self, prefix: str) -> list[SourceFile]:
        """Return its kernels' files, under names with a prefix.

        Kernels that are a single function each share a file: torch's header takes five seconds to compile, more than
        all of them, and would be compiled once for each file.
        """
        made = {
            f"{prefix}_{name}": _kernel(f"{prefix}_{name}", *kernel) for name, kernel in self.kernels.items()
        }
        alone = {name: text for name, text in made.items() if not _is_one_function(text)}
        shared = [text for name, text in made.items() if name not in alone]
        files = [SourceFile(path=f"{name}.cpp", text=_file([text])) for name, text in alone.items()]
        return [*files, SourceFile(path=f"{prefix}_kernels.cpp", text=_file(shared))] if shared else files

    def function(self, name: str, prefix: str) -> str:
        """Return its function of a list of tensors, which calls the kernels under those names."""
        body = self.call
        for kernel in self.kernels:
            body = re.sub(rf"\b{kernel}\(", f"kernels.{prefix}_{kernel}(", body)
        body = re.sub(rf"extern_kernels\.({'|'.join(_NATIVE)})\(", r"torch.\1(", body)
        return f"def {name}(args):\n" + textwrap.indent(body, "    ")


def statements(text: str, parts: Sequence[Part]) -> str:
    """Return the statements that bind what a text reads of torch."""
    used = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    found = {statement for part in parts for name, statement in part.names.items() if name in used}
    return "\n".join(sorted(found, key=_order))


def rewrite(generated: Sequence[Generated], task: str, mode: str) -> Candidate:
    """Make one candidate from the code generated for all search workloads.

    Raises:
        HarvestError: the code is not in a form that can be split.
    """
    if any("async_compile.triton" in g.code for g in generated):
        return _triton(generated, mode)
    parts = [cut(g.code) for g in generated]
    sources = [source for index, part in enumerate(parts) for source in part.sources(f"w{index}")]
    calls = [f"    {tuple(part.inputs)!r}: call_{index}," for index, part in enumerate(parts)]
    text = "\n\n".join(part.function(f"call_{index}", f"w{index}") for index, part in enumerate(parts))
    prelude = _PRELUDE.format(mode=mode, task=task.replace('"', "'"), names=statements(text, parts))
    run = prelude + "\n" + text + "\n" + RUN.format(calls="\n".join(calls))
    has_kernels = bool(sources)
    return Candidate(
        sources=(SourceFile(path="run.py", text=run), *sources, *((header(),) if has_kernels else ())),
        language="cpp" if has_kernels else "torch",
        entry="run.py:run",
        style="function",
        flags=generated[0].flags if has_kernels else (),
        proposer="inductor",
        reason=f"TorchInductor's own code, mode {mode}",
    )


def cut(code: str) -> Part:
    """Cut Inductor's module into kernels and the function that calls them."""
    tree = ast.parse(code)
    kernels = {}
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and _called(node.value) == "cpp_pybinding"
        ):
            name = node.targets[0]
            types, text = (ast.literal_eval(a) for a in node.value.args[:2])
            if isinstance(name, ast.Name):
                kernels[name.id] = (types, text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(functions) != 1:
        raise HarvestError(f"expected one function `call` in TorchInductor's code, found {len(functions)}")
    return Part(kernels, _body(code, functions[0]), _names(tree), _input_specs(tree))


def _names(tree: ast.Module) -> dict[str, str]:
    """Read the module's imports and its short names for torch objects."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                one = (
                    ast.ImportFrom(node.module, [alias], 0)
                    if isinstance(node, ast.ImportFrom)
                    else ast.Import([alias])
                )
                found[alias.asname or alias.name] = ast.unparse(one)
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("torch."):
            found[ast.unparse(node.targets[0])] = ast.unparse(node)
    found.pop("torch", None)
    return found


def _order(statement: str) -> tuple[bool, str]:
    """Sort imports before assignments."""
    return not statement.startswith(("import ", "from ")), statement


def _body(code: str, function: ast.FunctionDef) -> str:
    """Return the function's lines, including comments, without indentation."""
    first, last = function.body[0].lineno, function.end_lineno
    return textwrap.dedent("\n".join(code.splitlines()[first - 1 : last]))


def _input_specs(tree: ast.Module) -> list[Described]:
    """Read shape, strides and dtype of the inputs from the module's own `get_args`."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "get_args"]
    specs = []
    for node in ast.walk(functions[0]) if functions else ():
        if isinstance(node, ast.Call) and _called(node) == "rand_strided":
            shape, strides = (ast.literal_eval(a) for a in node.args[:2])
            dtype = next(k.value for k in node.keywords if k.arg == "dtype")
            specs.append((node.lineno, (tuple(shape), tuple(strides), ast.unparse(dtype))))
    if not specs:
        raise HarvestError("TorchInductor's code does not say what its inputs are")
    return [spec for _, spec in sorted(specs)]


def _kernel(name: str, types: Sequence[str], text: str) -> str:
    """Rename Inductor's `kernel` and export it through the TVM FFI ABI."""
    renamed, count = re.subn(r'(extern "C"\s+void\s+)kernel\(', rf"\1inductor_{name}(", text)
    if count != 1:
        raise HarvestError(f"kernel {name} is not of the form TorchInductor is known to write")
    values = ",\n      ".join(_argument(i, t) for i, t in enumerate(types))
    return f"{renamed}\nKW_KERNEL({name}) {{\n  inductor_{name}(\n      {values});\n}}\n"


def _is_one_function(text: str) -> bool:
    """Tell whether a kernel's text defines nothing but its function and its export, whose names are its own."""
    begun = [line for line in text.splitlines() if line and line[0] not in " \t{}"]
    return [line.split()[0].partition("(")[0] for line in begun if not line.startswith("#include")] == [
        "extern", "KW_KERNEL",
    ]  # fmt: skip


def _file(kernels: Sequence[str]) -> str:
    """Return the text of a file of kernels, each include in it once."""
    lines = [line for text in kernels for line in text.splitlines()]
    includes = dict.fromkeys(line for line in lines if line.startswith("#include"))
    rest = "\n".join(line for line in lines if line not in includes)
    return "\n".join(['#include "kernelwright.h"', "", *includes, "", _START_OF, rest]) + "\n"


def _argument(index: int, kind: str) -> str:
    if kind.endswith("*"):
        return f"reinterpret_cast<{kind}>(start_of(args.any_tensor({index})))"
    return f"static_cast<{kind}>(args.integer({index}))"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _triton(generated: Sequence[Generated], mode: str) -> Candidate:
    """Keep each module as Inductor wrote it and choose among them by the inputs' sizes."""
    modules = [SourceFile(path=f"workload_{i}.py", text=g.code) for i, g in enumerate(generated)]
    calls = [
        f"    {tuple(_input_specs(ast.parse(g.code)))!r}: workload_{i}.call," for i, g in enumerate(generated)
    ]
    imports = "".join(f"import workload_{i}\n" for i in range(len(generated)))
    run = f'"""What TorchInductor ({mode}) writes."""\n\nimport torch\n{imports}\n' + RUN.format(
        calls="\n".join(calls)
    )
    return Candidate(
        sources=(SourceFile(path="run.py", text=run), *modules),
        language="triton",
        entry="run.py:run",
        style="function",
        proposer="inductor",
        reason=f"TorchInductor's own code, mode {mode}",
    )
