"""Cross-compile Triton kernels; run as a separate process by `triton.py`.

`python -m kernelwright.languages._triton_compile request.json results.jsonl`: the request holds the jitted
functions' source (see `jitted_source`), their specialisations and the targets; each compilation appends one
line, so a process that is killed at its deadline leaves its results so far.

Covers: no module-level statement of the candidate runs; in jitted functions, names that lead out of
`triton.language` and Gluon's are rejected, since Triton calls any Python function that a kernel names at compile time.
Does not cover: a kernel crafted to break the compiler itself.
"""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from ._amdgcn import amd_facts
from ._occupancy import core_of, occupancy

_MIX = {
    "tensor_instructions": re.compile(r"\b(?:[HIQBD]G?MMA|UTC\w*MMA)\b"),
    "async_copies": re.compile(r"\b(?:LDGSTS|UTMALDG|UBLKCP)\b"),
    "global_loads": re.compile(r"\bLDG\b"),
    "spill_instructions": re.compile(r"\b(?:STL|LDL)\b"),
}
_CONSTANT = frozenset({"tl.constexpr", "triton.language.constexpr", "gl.constexpr", "ttgl.constexpr"})
_OPEN = ("triton.language.", "triton.experimental.gluon.language.")
"""Modules beneath which a kernel may name anything but other modules."""
_SASS = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+\S", re.MULTILINE)


class RefusedError(ValueError):
    """A kernel names something that kernels may not use."""


def jitted_source(text: str) -> str:
    """Return only what a compiler needs of a candidate's file: jitted functions and literal constants.

    Everything else in the module would run as Python, and the judge runs no candidate code.

    Raises:
        RefusedError: a kernel names something that leads out of `triton.language`.

    Example:
        >>> jitted_source("import os\\nN = 4\\nos.abort()\\n")
        'N = 4'
    """
    kept = [node for node in ast.parse(text).body if _is_kept(node)]
    for node in kept:
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [d for d in node.decorator_list if _is_jit(d)]
            _refuse_escapes(node)
    return ast.unparse(ast.Module(body=list(kept), type_ignores=[]))


def _is_kept(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(alias.name.split(".")[0] == "triton" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.level == 0 and (node.module or "").split(".")[0] == "triton"
    if isinstance(node, ast.FunctionDef):
        return any(map(_is_jit, node.decorator_list))
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and _is_name(node.annotation) and _is_literal(node.value)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) for target in node.targets) and _is_literal(node.value)
    return False


def _is_literal(value: ast.expr | None) -> bool:
    """Tell whether an expression is a constant, a signed one, or one wrapped in `constexpr`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _CONSTANT:
        return len(value.args) == 1 and not value.keywords and _is_literal(value.args[0])
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.operand, ast.Constant)
    return isinstance(value, ast.Constant)


def _is_name(annotation: ast.expr | None) -> bool:
    while isinstance(annotation, ast.Attribute):
        annotation = annotation.value
    return annotation is None or isinstance(annotation, ast.Name | ast.Constant)


def _is_jit(decorator: ast.expr) -> bool:
    return ast.unparse(decorator) in {"triton.jit", "jit", "triton.jit()", "gluon.jit", "gluon.jit()"}


def _refuse_escapes(function: ast.FunctionDef) -> None:
    """Refuse attributes and calls by which Triton's compile-time evaluation would reach Python's modules."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and (node.id == "getattr" or node.id.startswith("__")):
            raise RefusedError(f"kernel {function.name!r} names {node.id!r}, which no kernel needs")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise RefusedError(f"kernel {function.name!r} names the private attribute {node.attr!r}")
        if (
            isinstance(node, ast.Import | ast.ImportFrom | ast.Lambda | ast.FunctionDef)
            and node is not function
        ):
            raise RefusedError(
                f"kernel {function.name!r} holds a {type(node).__name__}, which no kernel needs"
            )
    taken = function.args
    for default in [*taken.defaults, *taken.kw_defaults]:
        if default is not None and not _is_literal(default):
            raise RefusedError(f"kernel {function.name!r} has a default that is not a literal")
    arguments = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    annotations = [argument.annotation for argument in arguments if argument is not None]
    if not all(map(_is_name, [*annotations, function.returns])):
        raise RefusedError(f"kernel {function.name!r} has an annotation that is not a name")


def _refuse_foreign_modules(source: str, module: ModuleType) -> None:
    """Refuse every dotted name that passes through a module outside `triton.language`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute | ast.Name) and inner not in node.decorator_list:
                _refuse_foreign(inner, module)


def _refuse_foreign(node: ast.expr, module: ModuleType) -> None:
    try:
        found = _resolve(node, module)
    except AttributeError:
        return
    if (
        isinstance(found, ModuleType)
        and found.__name__ not in {"triton", "triton.experimental.gluon"}
        and not f"{found.__name__}.".startswith(_OPEN)
    ):
        raise RefusedError(f"a kernel names the module {ast.unparse(node)!r}, which no kernel needs")


def _resolve(node: ast.expr, module: ModuleType) -> Any:
    if isinstance(node, ast.Name):
        return getattr(module, node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_resolve(node.value, module), node.attr)
    raise AttributeError


def is_for(target: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Tell whether a specialisation is to be compiled for a target.

    Example:
        >>> is_for({"name": "sm_90"}, {"targets": ["sm_90"]}), is_for({"name": "sm_80"}, {"targets": ["sm_90"]})
        (True, False)
    """
    return target["name"] in wanted.get("targets", [target["name"]])


def main(request_path: str, results_path: str, cores: int = 0) -> None:
    """Compile every specialisation for every target and append one JSON line for each.

    Targets are compiled by processes side by side, where there are two cores for each.

    Args:
        request_path: The source, specialisations and targets.
        results_path: Where lines go.
        cores: Cores to use; 0 for all that this process may.
    """
    request = json.loads(Path(request_path).read_text())
    path = Path(request_path).parent / "kernelwright_jitted.py"
    path.write_text(request["source"])
    spec = importlib.util.spec_from_file_location("kernelwright_jitted", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _refuse_foreign_modules(request["source"], module)
    work = [(t, [one for one in request["specialisations"] if is_for(t, one)]) for t in request["targets"]]
    if (cores or len(os.sched_getaffinity(0))) < 2 * len(work):
        for target, wanted in work:
            _compile_all(module, wanted, target, Path(results_path))
        return
    children = []
    for target, wanted in work:
        child = os.fork()
        if child == 0:
            try:
                _compile_all(module, wanted, target, Path(results_path))
            finally:
                os._exit(0)  # what it could not write, the parent's caller misses
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _compile_all(
    module: ModuleType, specialisations: list[dict[str, Any]], target: dict[str, Any], results_path: Path
) -> None:
    """Compile for one target, and append a line for each specialisation, each by one write."""
    with results_path.open("a") as results:
        for wanted in specialisations:
            line = {"target": target["name"], "kernel": wanted["kernel"]}
            started = time.monotonic()
            try:
                line |= {"facts": _compile(module, wanted, target, results_path.parent)}
            except Exception as error:  # noqa: BLE001 - Triton raises anything; the process is the edge
                words = str(error).strip().splitlines() or [""]
                line |= {"error": f"{type(error).__name__}: {' '.join(words[-3:])}"[:500]}
            line["time_s"] = time.monotonic() - started
            results.write(json.dumps(line) + "\n")
            results.flush()


def _compile(
    module: ModuleType, wanted: dict[str, Any], target: dict[str, Any], folder: Path
) -> dict[str, int]:
    import triton
    from triton.backends.compiler import GPUTarget

    function = getattr(module, wanted["kernel"])
    names = function.arg_names
    constexprs = wanted.get("constexprs", {})
    signature = {n: "constexpr" if n in constexprs else wanted["signature"][n] for n in names}
    divisible = wanted.get("divisible", ())
    attrs = {
        (i,): [["tt.divisibility", 16]]
        for i, n in enumerate(names)
        if signature[n].startswith("*") or n in divisible
    }
    source = source_class(function)(function, signature=signature, constexprs=constexprs, attrs=attrs)
    names_of_options = ("num_warps", "num_stages", *(("maxnreg",) if target["backend"] == "cuda" else ()))
    options = {key: wanted[key] for key in names_of_options if key in wanted}
    arch = target["arch"]
    gpu = GPUTarget(target["backend"], arch, target["warp_size"])
    compiled = triton.compile(source, target=gpu, options=options)
    assembly = compiled.asm.get("amdgcn")
    shared = int(compiled.metadata.shared)
    if assembly:
        return {**amd_facts(assembly, arch, shared), "shared_bytes": shared}
    facts = {**_nvidia_facts(compiled, folder), "shared_bytes": shared}
    if core := core_of(target["name"]):
        threads = 32 * int(compiled.metadata.num_warps)
        filled = occupancy(core, threads=threads, registers=facts["registers"], shared_bytes=shared)
        facts |= {"resident_blocks": filled.blocks, "resident_warps": filled.warps}
    return facts


def source_class(function: Any) -> Any:
    """Return what Triton's compiler takes a jitted function as: Gluon's are another dialect of its."""
    if function.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def _nvidia_facts(compiled: Any, folder: Path) -> dict[str, int]:
    import triton

    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    cubin = folder / f"kernel-{os.getpid()}.cubin"
    cubin.write_bytes(compiled.asm["cubin"])
    usage = _output([str(tools / "cuobjdump"), "-res-usage", str(cubin)])
    numbers = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage))
    facts = {"registers": int(numbers["REG"]), "spill_bytes": int(numbers["STACK"]) + int(numbers["LOCAL"])}
    return facts | count_instructions(_output([str(tools / "nvdisasm"), "-c", str(cubin)]))


def count_instructions(text: str) -> dict[str, int]:
    """Count the instructions of a disassembly, and those of some kinds.

    Example:
        >>> count_instructions("  /*0010*/       HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;")["tensor_instructions"]
        1
    """
    mix = {name: len(pattern.findall(text)) for name, pattern in _MIX.items()}
    return {"instructions": len(_SASS.findall(text)), **mix}


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
