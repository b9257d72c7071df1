"""A seccomp filter: system calls that no kernel needs and that reach beyond the process are refused.

Covers: tracing and reading other processes, mounting, namespaces, new sockets (all of them on a CPU, all but
AF_UNIX for a GPU's driver), BPF, perf, keys, io_uring, modules, clocks, outliving the parent, handing one's orphans to
another process; of programs that are to be one process, also other processes, and what outlives it without being a
file: System V's and POSIX's queues and memory, times and attributes of files, priorities of others. x86_64, aarch64.
Does not cover: bugs in the calls that are left, timing side channels, other architectures (reported as absent).
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}
# Source: Linux, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_DENIED: dict[str, tuple[int, int]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "setns": (308, 268), "unshare": (272, 97), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "quotactl": (179, 60),
    "open_by_handle_at": (304, 265), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "personality": (135, 92), "vhangup": (153, 58),
}  # fmt: skip
_ABSENT = 0x3FFFFFFF
"""The number of a call that an architecture does not have."""
_LASTING: dict[str, tuple[int, int]] = {
    "fork": (57, _ABSENT), "vfork": (58, _ABSENT), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180), "chmod": (90, _ABSENT), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "chown": (92, _ABSENT), "fchown": (93, 55), "lchown": (94, _ABSENT),
    "fchownat": (260, 54), "utime": (132, _ABSENT), "utimes": (235, _ABSENT), "futimesat": (261, _ABSENT),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463),
    "removexattrat": (466, 466), "file_setattr": (469, 469), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setattr": (314, 274), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip
"""What a program that is one process is denied too."""
_OF_ITSELF = ((302, 261), (203, 122))
"""`prlimit64` and `sched_setaffinity`, which such a program may call for its calling thread alone."""
_SOCKET, _CLONE, _CLONE3, _PRCTL = (41, 198), (56, 220), (435, 435), (157, 167)
_NAMESPACE_FLAGS, _CLONE_THREAD = 0x7E020000, 0x10000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 36, 38, 22
_LOAD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def close_system_calls(*, unix_sockets: bool) -> bool:
    """Install the filter on this thread and all it starts; returns whether the kernel took it."""
    machine = platform.machine()
    if machine not in _COLUMN:
        return False
    code = b"".join(_instructions(machine, unix_sockets=unix_sockets))
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) == 0)


def one_process() -> bytes:
    """Return the filter of a program that is one process and leaves nothing behind; empty where there is none."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _COLUMN:
        return b""
    return b"".join(_instructions(machine, unix_sockets=False, alone=True))


def _instructions(machine: str, *, unix_sockets: bool, alone: bool = False) -> list[bytes]:
    column = _COLUMN[machine]
    deny, missing = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        _op(_LOAD, 4), _op(_JEQ, _AUDIT_ARCH[machine], 1, 0), _op(_RET, _KILL_PROCESS), _op(_LOAD, 0),
        _op(_JGE, _X32, 0, 1), _op(_RET, missing),
    ]  # fmt: skip
    for numbers in (*_DENIED.values(), *(_LASTING.values() if alone else ())):
        code += [_op(_JEQ, numbers[column], 0, 1), _op(_RET, deny)]
    code += [_op(_JEQ, _CLONE3[column], 0, 1), _op(_RET, missing)]
    for numbers in _OF_ITSELF if alone else ():
        code += [_op(_JEQ, numbers[column], 0, 4), _argument(0), _op(_JEQ, 0, 1, 0)]
        code += [_op(_RET, deny), _op(_RET, _ALLOW)]
    thread = [_op(_JSET, _CLONE_THREAD, 1, 0)] if alone else [_op(_JSET, 0, 0, 1)]
    code += [_op(_JEQ, _CLONE[column], 0, 5), _argument(0), _op(_JSET, _NAMESPACE_FLAGS, 1, 0)]
    code += [*thread, _op(_RET, deny), _op(_RET, _ALLOW)]
    code += [_op(_JEQ, _PRCTL[column], 0, 5), _argument(0), _op(_JEQ, _PR_SET_PDEATHSIG, 1, 0)]
    code += [_op(_JEQ, _PR_SET_CHILD_SUBREAPER, 0, 1), _op(_RET, deny), _op(_RET, _ALLOW)]
    if unix_sockets:
        code += [_op(_JEQ, _SOCKET[column], 0, 4), _argument(0), _op(_JEQ, socket.AF_UNIX, 1, 0)]
        code += [_op(_RET, deny), _op(_RET, _ALLOW)]
    else:
        code += [_op(_JEQ, _SOCKET[column], 0, 1), _op(_RET, deny)]
    return [*code, _op(_RET, _ALLOW)]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _argument(index: int) -> bytes:
    """Load the low half of an argument; both architectures are little-endian."""
    return _op(_LOAD, 16 + 8 * index)


def filter_works() -> bool:
    """Tell whether a refused call is refused in this process: `kcmp` with an unknown kind answers EPERM, not EINVAL."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _DENIED["kcmp"][_COLUMN.get(platform.machine(), 0)]
    result = libc.syscall(number, os.getpid(), os.getpid(), 99, 0, 0)
    return bool(result == -1 and ctypes.get_errno() == errno.EPERM)
