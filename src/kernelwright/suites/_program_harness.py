"""A program's text and the harness that it is built with → what of the harness it gives another meaning."""

import re
from collections.abc import Mapping

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_MACRO = re.compile(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(\w+)([^\n]*)", re.MULTILINE)
_NUMBER = re.compile(r"[ \t]+\(?[-+]?[\d.][\w.+-]*\)?[ \t]*")
"""What follows the name of a constant such as `M_PI`, of which a kernel may have its own."""
_OF_C = r"_?exit|_Exit|quick_exit|abort|f?printf|f?puts|mem(?:cmp|cpy|set)|strn?cmp|s?rand|malloc|calloc|free|fabs[fl]?"
_OF_CUDA = (
    r"cuda(?:Malloc|Free|Memcpy|Memset|DeviceSynchronize|StreamSynchronize|LaunchKernel|GetLastError|PeekAtLastError|"
    r"Event\w+)(?:Async)?"
)
_REPLACED = re.compile(
    rf'extern\s+"C"[^;{{}}()]*?\b({_OF_C})\s*\([^;{{}}]*\{{|\b({_OF_CUDA})\s*\([^;{{}}()]*\)\s*(?:noexcept\s*)?\{{'
)
"""The definition of a function of C's library or CUDA's: a program that has its own calls that."""


def rewrites(text: str, harness: Mapping[str, str], path: str) -> tuple[str, ...]:
    """Return what a program defines that its harness uses and does not define: macros, and functions of libraries.

    Covers: a kernel whose text its harness includes, or that is linked with it, and that replaces what compares it.
    Does not cover: what it does as it runs.

    Args:
        text: The program's.
        harness: The other texts by path.
        path: The program's own.

    Example:
        >>> harness = {"test.cu": '#include "k.cu"\\nint main() { if (fabsf(x) > M_PI) exit(1); }'}
        >>> rewrites("#define fabsf(x) 0\\n", harness, "k.cu"), rewrites("#define M_PI 3.14\\n", harness, "k.cu")
        (('fabsf',), ())
        >>> rewrites('extern "C" void exit(int) { _exit(0); }', harness, "another.cu")
        ('exit',)
    """
    plain, given = (_COMMENT.sub(" ", one) for one in (text, "\n".join(harness.values())))
    left: dict[str, None] = {}
    if f'"{path}"' in given:
        for kind, name, rest in _MACRO.findall(plain):
            left.pop(name, None)
            if kind == "define" and not _NUMBER.fullmatch(rest):
                left[name] = None
    left |= dict.fromkeys(of_c or of_cuda for of_c, of_cuda in _REPLACED.findall(plain))
    used, own = set(re.findall(r"\w+", given)), {name for _, name, _ in _MACRO.findall(given)}
    return tuple(name for name in left if name in used - own)
