"""Where TVM FFI's headers are, found without importing it: it imports torch."""

import functools
import importlib.util
from pathlib import Path

from ..errors import MissingToolError


@functools.lru_cache
def ffi_includes() -> tuple[str, ...]:
    """Return the compiler flags that find TVM FFI's headers.

    Raises:
        MissingToolError: where it is not installed.
    """
    package = importlib.util.find_spec("tvm_ffi")
    if package is None or package.origin is None:
        raise MissingToolError("no TVM FFI; install it: `pip install apache-tvm-ffi`")
    spec = importlib.util.spec_from_file_location(
        "_tvm_ffi_libinfo", Path(package.origin).with_name("libinfo.py")
    )
    assert spec is not None, "the name ends like a module's"
    assert spec.loader is not None, "the name ends like a module's"
    libinfo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(libinfo)
    folders = dict.fromkeys((libinfo.find_include_path(), libinfo.find_dlpack_include_path()))
    return tuple(word for folder in folders for word in ("-isystem", str(folder)))
