"""Where a loaded library keeps what each thread has its own of, found in the thread that calls kernels.

Source: Linux man-pages, dl_iterate_phdr(3); ELF Handling For Thread-Local Storage, section 3.

Covers: the calling thread's block of one library, once it has been touched.
Does not cover: other threads' blocks; a worker that was taken over and says something else.
"""

import ctypes

_PT_TLS = 7


class _Header(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64), ("physical", ctypes.c_uint64), ("file_bytes", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64), ("alignment", ctypes.c_uint64),
    ]  # fmt: skip


class _Library(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64), ("name", ctypes.c_char_p), ("headers", ctypes.POINTER(_Header)),
        ("count", ctypes.c_uint16), ("added", ctypes.c_ulonglong), ("removed", ctypes.c_ulonglong),
        ("module", ctypes.c_size_t), ("block", ctypes.c_void_p),
    ]  # fmt: skip


_LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)


def thread_memory(name: str) -> tuple[int, int]:
    """Return address and bytes of this thread's block of the library with a file name; zeros where there is none."""
    found = (0, 0)

    def look(library: "ctypes._Pointer[_Library]", size: int, given: None) -> int:  # noqa: ARG001 - the callback's form
        nonlocal found
        one = library.contents
        if (one.name or b"").endswith(b"/" + name.encode()) and one.block:
            sizes = [h.memory_bytes for h in one.headers[: one.count] if h.type == _PT_TLS]
            found = (one.block, sizes[0]) if sizes else found
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_LOOK(look), None)
    return found
