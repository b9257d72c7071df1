"""C++ kernels that include TVM FFI's own headers, precompiled once: parsing them takes three seconds a kernel."""

from kernelwright.records import SourceFile

HEADERS = ("tvm/ffi/container/tensor.h", "tvm/ffi/function.h")
COMMON = SourceFile(
    path="ffi.h", text="".join(["// precompile\n", *(f"#include <{name}>\n" for name in HEADERS)])
)


def sources_of(path: str, text: str) -> tuple[SourceFile, ...]:
    """Return a kernel and the header that it shares with others; the kernel alone if it includes none of TVM FFI's.

    Example:
        >>> [f.path for f in sources_of("k.cpp", "int x;")]
        ['k.cpp']
    """
    lines = [f"#include <{name}>\n" for name in HEADERS]
    if not (path.endswith(".cpp") and all(line in text for line in lines)):
        return (SourceFile(path=path, text=text),)
    for line in lines:
        text = text.replace(line, "\n")
    return SourceFile(path=path, text=f'#include "{COMMON.path}"\n{text}'), COMMON
