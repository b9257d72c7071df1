"""The library of a `load_inline` call, for the executor: nvcc builds it against the small `torch` of `host/torch_api`.

It imports neither torch nor NumPy, so that it can be built while others import them; it is kept in the build cache by
its content.
"""

import functools
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import KernelwrightError
from ..languages._ffi import ffi_includes
from ..languages._inline import key_of, texts
from ..languages._process import Finished, run_tool
from ..records import Build, BuildStatus
from . import _cudart, _native, _ptxas
from ._nvcc import contents, flags_for, standard, target_for, unknown_calls
from ._nvcc import version as nvcc_version

_HEADERS: Final = _cudart.HOST / "torch_api"
FLAGS: Final = ("extra_cuda_cflags",)
"""Options of `load_inline` that change what is executed."""
_TORCH_FLAGS: Final = (
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr",
)  # fmt: skip
"""What torch gives nvcc. Source: COMMON_NVCC_FLAGS, torch/utils/cpp_extension.py."""
_MEANT: Final = re.compile(
    "-[DU].+|-{1,2}(std|ftz|prec-div|prec-sqrt|fmad)=.+|-{1,2}use_fast_math|-{1,2}expt-.+|-{1,2}extended-lambda"
)
"""Flags that change what a kernel computes or which sources compile; others speed up, say more or choose a target."""
_HALVES: Final = re.compile(r"half|bf16|bfloat|reduced_floating", re.IGNORECASE)
_STANDARD: Final = re.compile(r"\bstd::(\w+)|^\s*using\s+(namespace\s+std\b)", re.MULTILINE)
_ALWAYS: Final = re.compile(
    "vector|tuple|get|tie|make_tuple|optional|nullopt|string|to_string|move|forward|pair|make_pair|swap|runtime_error|"
    "invalid_argument|exception|numeric_limits|max|min|abs|sqrt|pow|exp|log|ceil|floor|isnan|isinf|size_t|u?int\\d+_t|"
    "is_same|is_same_v"
)
"""What `kw_torch.h` includes of the standard library whatever a source uses."""


_ABSENT: Final = re.compile(r"^(\S+?:\d+):\d+: fatal error: (\S+): No such file", re.MULTILINE)


class _NotBuiltError(KernelwrightError):
    """A compiler did not make the library; or ptxas refused its assembly, `always` or for this target."""

    def __init__(self, done: Finished, refused: str = "", *, always: bool = False) -> None:
        super().__init__(done.output)
        self.done, self.refused, self.always = done, refused, always


def headers_left_out(source: str) -> list[str]:
    """Return the words for nvcc by which `kw_torch.h` leaves out headers that a source does not use.

    Example:
        >>> headers_left_out("std::vector<torch::Tensor> f(torch::Tensor x) { return {x}; }")
        ['-DKW_NO_HALVES', '-DKW_FEW_HEADERS']
        >>> headers_left_out("AT_DISPATCH_FLOATING_TYPES_AND_HALF(t, n, [&] { std::cout << n; })")
        []
    """
    used = {name or other for name, other in _STANDARD.findall(source)}
    left = [] if _HALVES.search(source) else ["-DKW_NO_HALVES"]
    return left + (["-DKW_FEW_HEADERS"] if all(map(_ALWAYS.fullmatch, used)) else [])


def compile_inline(
    nvcc: str, call: Mapping[str, Any], folder: Path, deadline_s: float, ahead: Callable[[str], None]
) -> Build:
    """Put the library of a call of `load_inline` into a folder, named by its key.

    `ahead` is called with the PTX as soon as it is there, while the host's half is still compiled.
    """
    try:
        library, source, said = extension(nvcc, call, deadline_s, ahead)
    except _NotBuiltError as error:
        if error.done.timed_out:
            return Build(
                status=BuildStatus.TIMEOUT, diagnostics=f"no end after {deadline_s:g} s\n{error.done.output}"
            )
        if error.refused and error.always:
            return Build(status=BuildStatus.FAILED, diagnostics=error.refused)
        if error.refused:
            return Build(status=BuildStatus.UNAVAILABLE, diagnostics=f"not executed: {error.refused}")
        said = reason(error.done.output)
        words = f"not executed: {said}" + ("" if "is not here" in said else f"\n{error.done.output}")
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=words[:20_000])
    name = key_of(call)
    shutil.copyfile(library, folder / f"{name}.so")
    unknown = unknown_calls(library, {f"{name}.cu": source})
    if unknown:
        return Build(status=BuildStatus.UNAVAILABLE, diagnostics=unknown)
    return Build(status=BuildStatus.OK, diagnostics=said)


def reason(output: str) -> str:
    """Say in a sentence why a source does not compile here: a header that is not here, or the first error.

    Example:
        >>> reason("cuda_sources:4:10: fatal error: cublas_v2.h: No such file or directory")
        'cublas_v2.h, which cuda_sources:4 includes, is not here, nor is its library'
        >>> reason("cuda_sources(7): error: identifier f is undefined")
        "cuda_sources(7): error: identifier f is undefined; the executor's torch is a small one"
    """
    absent = _ABSENT.search(output)
    if absent:
        place, header = absent.groups()
        return f"{header}, which {place} includes, is not here, nor is its library"
    wrong = next((line for line in output.splitlines() if "error" in line), "nvcc failed")
    return f"{wrong}; the executor's torch is a small one"


def extension(
    nvcc: str, call: Mapping[str, Any], deadline_s: float, ahead: Callable[[str], None]
) -> tuple[Path, str, str]:
    """Return the library of a call in the build cache, its sources, and what compilers said if it was built now."""
    name = key_of(call)
    parts = (*texts(call.get("cpp_sources")), *texts(call["cuda_sources"]))
    functions = "".join(f'm.def("{f}", &{f});' for f in texts(call.get("functions")))
    glue = f"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ {functions} }}\n" if functions else ""
    source = "".join(
        f'#line 1 "{"cuda" if n >= len(parts) - len(texts(call["cuda_sources"])) else "cpp"}_sources"\n{text}\n'
        for n, text in enumerate(parts)
    )
    whole = f'#include "kw_torch.h"\n{source}{glue}'
    given = [flag for flag in texts(call.get("extra_cuda_cflags")) if _MEANT.fullmatch(flag)]
    words = [
        nvcc, *flags_for(target_for(source)), *standard(given), "-O1", "-c", "-Xcompiler", "-fPIC,-fvisibility=hidden",
        *headers_left_out(source), *_TORCH_FLAGS, *given, f"-I{_HEADERS}", *ffi_includes(),
    ]  # fmt: skip
    made_of = [nvcc_version(nvcc), *words, contents([_HEADERS]), name, whole]
    said: list[str] = []
    build = functools.partial(_build, (nvcc, words, f"{name}.cu", whole), deadline_s, ahead, said)
    key = _native.key(b"extension", *(part.encode() for part in made_of))
    return _native.cached(key, build), source, "".join(said)


def _build(
    what: tuple[str, list[str], str, str], deadline_s: float, ahead: Callable[[str], None], said: list[str],
    folder: Path, into: Path,
) -> None:  # fmt: skip
    nvcc, words, file, text = what
    (folder / file).write_text(text)
    begun, refused = time.monotonic(), ("", False)
    with _cudart.kept(folder / "kept", ahead) as keep:
        done = run_tool(
            [*words, file, "-o", "made.o", *keep], deadline_s=deadline_s, folder=folder, closed=True,
            readable=[_HEADERS],
        )  # fmt: skip
        if done.returncode != 0:
            made = [f.read_text(errors="replace") for f in (folder / "kept").glob("*.ptx")]
            refused = _ptxas.refused_in(done.output, made)
    said.append(done.output)
    if done.returncode == 0 and not done.timed_out:  # the runtime is needed here for the first time
        done = _cudart.link(nvcc, folder / "made.o", into, begun + deadline_s - time.monotonic())
        said.append(done.output)
    if done.timed_out or done.returncode != 0:
        raise _NotBuiltError(done, refused[0], always=refused[1])
