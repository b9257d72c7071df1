"""Candidate → Build → loaded kernel. One file a language, found by its entry point.

| language | style | builds with | runs on |
|---|---|---|---|
| `torch` | function, module, destination | nothing (byte-compiled) | whatever torch runs on |
| `cpp` | destination | g++ or clang++ | the CPU |
| `triton` | function, module, destination | Triton, which needs no GPU | a GPU; else the interpreter, untimed |
| `opencl` | destination | the OpenCL driver | PoCL on the CPU, or any device |
| `wgsl` | destination | the WebGPU driver | any adapter, one in software on the CPU included |
| `cuda` | destination | nvcc | an NVIDIA GPU |

Each file's docstring shows how to write a candidate in that language.
"""

from importlib.metadata import EntryPoint, entry_points

from ..errors import InputError, NotFoundError, known_names
from ._protocol import Availability, Kernel, Language

__all__ = ["Availability", "Kernel", "Language", "get_language", "language_names"]

_GROUP = "kernelwright.languages"


def language_names() -> tuple[str, ...]:
    """Name every registered language, whether its tools are here or not, in alphabetical order.

    Example:
        >>> "cpp" in language_names()
        True
    """
    return tuple(sorted(_entry_points()))


def get_language(name: str) -> Language:
    """Return the language registered under `name`.

    Raises:
        NotFoundError: where no installed package registers the name.
        InputError: where what is registered is not a `Language`.

    Example:
        >>> get_language("torch").name
        'torch'
    """
    known = _entry_points()
    if name not in known:
        raise NotFoundError(f"no language is called {name!r}; {known_names(name, known)}")
    language = known[name].load()()
    if not isinstance(language, Language):
        raise InputError(
            f"entry point {known[name].value!r} of language {name!r} does not make a Language; "
            "expected name, available, toolchain, build, load and timeable"
        )
    return language


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=_GROUP)}
