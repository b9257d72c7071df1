"""A process whose clock stands still but for what it is told has passed: hours between two calls, in no time.

On x86-64 `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)` makes every read of the time stamp counter a SIGSEGV, wherever the
instruction is hidden, and with it the clocks that the kernel's vDSO computes of that counter. The handler gives a
counter of ours instead: a tick further with each read, and as far as we like on from time to time. Elsewhere, or where
the vDSO does not read the counter, Python's `time` module is all that is changed.

Source: Linux man-pages, PR_SET_TSC(2const), vdso(7); Intel SDM volume 2B, RDTSC, RDTSCP.

Covers: `rdtsc` and `rdtscp`; `clock_gettime` and `gettimeofday` of the vDSO, so Python's `time` and `datetime`.
Does not cover: clocks by system call (`times`, `getrusage`, `syscall`), the coarse ones, `time(2)`, times of files.
"""

import ctypes
import mmap
import platform
import signal
import time

_PR_SET_TSC, _PR_TSC_SIGSEGV = 26, 2
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 0x4, 0x08000000, 0x40000000
_CALIBRATION_S = 0.005
_TICK_S = 20e-6
_TRIED_S = 3600.0
_DATA, _READ = 512, 256
"""Where in the page the counter and the reading function are; the handler is at its start."""
_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""rdtsc; shl rdx, 32; or rax, rdx; ret"""
# Offsets in ucontext_t: rdx 0x88, rax 0x90, rcx 0x98, rip 0xa8. r8 holds the address of {counter, tick, no action}.
_HANDLER = (
    "49b8 {data}"                  # mov r8, data
    "488b82a8000000"               # mov rax, [rdx + 0xa8]         where it happened
    "41b902000000"                 # mov r9d, 2
    "6681380f31 741e"              # cmp word [rax], rdtsc         je counted
    "6681380f01 753c"              # cmp word [rax], rdtscp        jne other
    "807802f9 7536"                # cmp byte [rax + 2], 0xf9      jne other
    "41b903000000"                 # mov r9d, 3
    "48c7829800000000000000"       # mov qword [rdx + 0x98], 0     on processor 0
    # counted:
    "498b4008"                     # mov rax, [r8 + 8]
    "f0490fc100"                   # lock xadd [r8], rax
    "4c018aa8000000"               # add [rdx + 0xa8], r9          go on after the instruction
    "89c1 48898a90000000"          # mov ecx, eax                  mov [rdx + 0x90], rcx
    "48c1e820 48898288000000 c3"   # shr rax, 32                   mov [rdx + 0x88], rax; ret
    # other: a fault of its own, which ends the process once there is no handler
    "b80d000000 bf0b000000"        # mov eax, rt_sigaction         mov edi, SIGSEGV
    "498d7010 31d2 41ba08000000"   # lea rsi, [r8 + 16]            xor edx, edx; mov r10d, 8
    "0f05 c3"                      # syscall; ret
)  # fmt: skip


class _Action(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_ubyte * 128), ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]  # fmt: skip


class StoppedClock:
    """Stops this process's clock when it is made; `pass_s` moves it."""

    def __init__(self) -> None:
        self._page: mmap.mmap | None = None
        self._counter = ctypes.c_uint64(0)
        self._hertz, self._ahead_s = 0.0, 0.0
        self.whole = platform.machine() == "x86_64" and self._trap()
        """Whether all of the process is served, not its Python alone."""
        if not self.whole:
            self._patch()

    def pass_s(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._ahead_s += seconds
        self._counter.value += int(seconds * self._hertz)

    def _trap(self) -> bool:
        """Serve reads of the counter from now on, in this thread and those that it starts; tell whether it works."""
        try:
            page = self._page = mmap.mmap(
                -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            )
        except (OSError, ValueError):
            return False
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        code = bytes.fromhex(_HANDLER.format(data=(start + _DATA).to_bytes(8, "little").hex()))
        page[: len(code)], page[_READ : _READ + len(_READ_COUNTER)] = code, _READ_COUNTER
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(start + _READ)
        begun, first = time.perf_counter(), read()
        time.sleep(_CALIBRATION_S)
        self._hertz = (read() - first) / (time.perf_counter() - begun)
        self._counter = ctypes.c_uint64.from_buffer(page, _DATA)
        ctypes.c_uint64.from_buffer(page, _DATA + 8).value = max(1, int(_TICK_S * self._hertz))
        self._counter.value = read()
        action = _Action(handler=start, flags=_SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER)
        libc = ctypes.CDLL(None)
        if libc.sigaction(int(signal.SIGSEGV), ctypes.byref(action), None) != 0:
            return False
        if libc.prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0) != 0:
            return False
        before = time.time()
        self.pass_s(_TRIED_S)
        return time.time() - before > _TRIED_S / 2

    def _patch(self) -> None:
        """Serve Python's own names."""
        for name in ("time", "monotonic", "perf_counter"):
            real, real_ns = getattr(time, name), getattr(time, f"{name}_ns")
            setattr(time, name, lambda real=real: real() + self._ahead_s)
            setattr(time, f"{name}_ns", lambda real=real_ns: real() + int(self._ahead_s * 1e9))
