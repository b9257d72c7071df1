"""Candidate → Build → loaded kernel. One file per language, found by its entry point.

| language | style | builds with | runs on |
|---|---|---|---|
| `torch` | function, module, destination | nothing (byte-compiled) | whatever torch runs on |
| `cpp` | destination | g++ or clang++ | the CPU |
| `triton` | function, module, destination | Triton, which needs no GPU | a GPU; else interpreted, sanitised, untimed |
| `gluon` | function, module, destination | Triton, which needs no GPU | a GPU; else executed, untimed |
| `opencl` | destination | the OpenCL driver | PoCL on the CPU, or any device |
| `wgsl` | destination | the WebGPU driver | any adapter, one in software on the CPU included |
| `cuda` | destination; function, module | nvcc | an NVIDIA GPU; else executed, untimed |
| `pallas` | function | nothing (byte-compiled) | nothing here: interpreted on the CPU for TPUs |
| `ascendc` | destination | g++ or clang++ | nothing here: executed on the CPU and checked, for Ascend NPUs |
| `hip` | destination | clang, for AMD GPUs | nothing here: compiled only |

Each file's docstring shows how to write a candidate in that language.
"""

from collections.abc import Sequence

from ..errors import InputError
from ..records import Candidate, TensorSpec
from ..registry import Registry
from ._imports import imported_names, outside_instructions, writable_spans
from ._protocol import Availability, Kernel, Language

__all__ = [
    "Availability",
    "Kernel",
    "Language",
    "compiles_when_called",
    "executed_on",
    "executes",
    "get_language",
    "imported_names",
    "is_executed",
    "language_names",
    "not_run",
    "outside_instructions",
    "writable_spans",
]

_LANGUAGES = Registry("languages", "language")


def language_names() -> tuple[str, ...]:
    """Name every registered language, whether or not its tools are installed, in alphabetical order.

    Example:
        >>> "cpp" in language_names()
        True
    """
    return _LANGUAGES.names()


def executes(name: str) -> bool:
    """Tell whether the language can execute its GPU kernels here, under a sanitiser: it has `load_executed`.

    Example:
        >>> executes("torch")
        False
    """
    asked = getattr(get_language(name), "executes", None)
    return bool(asked and asked())


def executed_on(language: Language) -> tuple[str, ...]:
    """Name the targets whose kernels the language's `load` runs here without the device: it has `executed`.

    Example:
        >>> executed_on(get_language("torch"))
        ()
    """
    return tuple(getattr(language, "executed", ()))


def is_executed(candidate: Candidate, outputs: Sequence[TensorSpec]) -> bool:
    """Tell whether `load` executes the candidate's kernels here: its language's, or this one's by `only_executed`.

    Example:
        >>> from kernelwright.records import SourceFile
        >>> source = SourceFile(path="k.py", text="def f(x): return x")
        >>> is_executed(Candidate(sources=(source,), language="torch", entry="k.py:f", style="function"), ())
        False
    """
    language = get_language(candidate.language)
    asked = getattr(language, "only_executed", None)
    return bool(executed_on(language) or (asked and asked(candidate, outputs)))


def compiles_when_called(name: str) -> bool:
    """Tell whether the language's runtime compiles when a kernel is called: it has `compiles_when_called`.

    Example:
        >>> compiles_when_called("triton"), compiles_when_called("cpp")
        (True, False)
    """
    return bool(getattr(get_language(name), "compiles_when_called", False))


def not_run(language: Language) -> str:
    """Say why the language's kernels are compiled here and never run; empty where they run: it has `not_run`.

    Example:
        >>> not_run(get_language("hip"))
        'a HIP kernel is compiled here and not run: nothing here executes code for AMD GPUs'
    """
    return str(getattr(language, "not_run", ""))


def get_language(name: str) -> Language:
    """Return the language registered under `name`.

    Raises:
        NotFoundError: no installed package registers the name.
        InputError: the registered object is not a `Language`.

    Example:
        >>> get_language("torch").name
        'torch'
    """
    language = _LANGUAGES.load(name)()
    if not isinstance(language, Language):
        raise InputError(
            f"the entry point of language {name!r} makes a {type(language).__name__!r} and no Language; "
            "expected name, available, toolchain, build, load and timeable"
        )
    return language
