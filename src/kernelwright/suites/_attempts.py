"""A program → what it tries that outlives it, or that nobody would count: told by the system calls it is stopped at.

A program that is timed stays one process and leaves nothing behind (`_program_runs`); what it tries against that is
refused it, so that it gains nothing. Trying is told here: it runs once more under a filter that ends it at such a call.

Covers: other processes, queues, shared memory, keys, files that are written, names, times, modes and attributes of
files, other processes' priorities and limits, sockets. x86_64 and aarch64.
Does not cover: what it tries on other inputs than tests; files whose path is a device of the system.
"""

import os
import platform
import re
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import replace

from ._program_runs import Built, Program

_ARCHITECTURE = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_ABSENT = 0x3FFFFFFF
# Source: Linux, arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_CALLS: dict[str, tuple[tuple[int, int], ...]] = {
    "starts another process": ((57, _ABSENT), (58, _ABSENT)),
    "asks for shared memory, queues, semaphores or keys": (
        (29, 194), (64, 190), (68, 186), (240, 180), (248, 217), (249, 218), (250, 219),
    ),
    "writes files": (
        (85, _ABSENT), (83, _ABSENT), (258, 34), (88, _ABSENT), (266, 36), (86, _ABSENT), (265, 37), (82, _ABSENT),
        (264, 38), (316, 276), (133, _ABSENT), (259, 33), (76, 45),
    ),
    "changes modes, times or attributes of files": (
        (90, _ABSENT), (91, 52), (268, 53), (452, 452), (92, _ABSENT), (93, 55), (94, _ABSENT), (260, 54),
        (132, _ABSENT), (235, _ABSENT), (261, _ABSENT), (280, 88), (188, 5), (189, 6), (190, 7), (463, 463),
    ),
    "changes priorities or limits of processes": ((141, 140), (251, 30), (314, 274), (144, 119), (142, 118)),
    "opens sockets": ((41, 198),),
}  # fmt: skip
"""By what a person would say: system calls that are always that. Creating, and the sharing of names, write files."""
_CLONE, _OPEN, _OPENAT, _PRLIMIT, _AFFINITY = (56, 220), (2, _ABSENT), (257, 56), (302, 261), (203, 122)
_CLONE_THREAD, _WRITES = 0x10000, os.O_WRONLY | os.O_RDWR | os.O_CREAT
_LOAD, _JEQ, _JSET, _RET = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EXCUSED = {
    "writes files": re.compile(r'"/dev/(?:null|tty|std\w+)"|"CON"'),
    "starts another process": re.compile(r'\bsystem\s*\(\s*"(?:pause|cls|clear)'),
}
"""Habits of programs that were written for another system."""
_CLOCKS = re.compile(
    r'extern\s+"C"[^;{}()]*?\b(clock_gettime|gettimeofday|getrusage|times|clock|time)\s*\([^;{}]*\{',
    re.DOTALL,
)


def attempted(program: Program, mine: Built, original: Built) -> str:
    """Say what a program tries that the original does not; empty if nothing, or where there is no filter.

    Args:
        program: Its tests are what both run on.
        mine: The program.
        original: The benchmark's own.
    """
    text = "\n".join(mine.files.values())
    if found := _CLOCKS.search(text):
        line = text.count("\n", 0, found.start(1)) + 1
        return f"its line {line} defines {found[1]}, which tells the time"
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURE or mine.sealing is None:
        return ""
    if not _stopped(program, mine, list(_CALLS)):
        return ""
    for what in _CALLS:
        excuse = _EXCUSED.get(what)
        if excuse and excuse.search(text):
            continue
        if _stopped(program, mine, [what]) and not _stopped(program, original, [what]):
            return f"it {what}, where a program is one process that leaves nothing behind"
    return ""


def _stopped(program: Program, one: Built, what: Sequence[str]) -> bool:
    """Tell whether a run on a test ends at a system call of one of those kinds."""
    strict = replace(one, more=ending_at(what, platform.machine()))
    runs = (strict.run(program.command, test.stdin, program.limit_s) for test in program.tests)
    return any(ran.code == -signal.SIGSYS for ran in runs)


def ending_at(what: Sequence[str], machine: str) -> bytes:
    """Return a filter that ends a process at system calls of those kinds."""
    architecture, column = _ARCHITECTURE[machine]
    code = [_op(_LOAD, 4), _op(_JEQ, architecture, 1, 0), _op(_RET, _ALLOW), _op(_LOAD, 0)]
    for kind in what:
        for numbers in _CALLS[kind]:
            code += [_op(_JEQ, numbers[column], 0, 1), _op(_RET, _KILL)]
    if "starts another process" in what:
        code += _where(_CLONE[column], [_argument(0), _op(_JSET, _CLONE_THREAD, 1, 0), _op(_RET, _KILL)])
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)) if "writes files" in what else ():
        code += _where(numbers[column], [_argument(argument), _op(_JSET, _WRITES, 0, 1), _op(_RET, _KILL)])
    if "changes priorities or limits of processes" in what:
        other = [_argument(0), _op(_JEQ, 0, 1, 0), _op(_RET, _KILL)]
        code += _where(_AFFINITY[column], other)
        given = [_argument(0), _op(_JEQ, 0, 3, 0), _argument(2), _op(_JEQ, 0, 1, 0), _op(_RET, _KILL)]
        code += _where(_PRLIMIT[column], given)
    return b"".join([*code, _op(_RET, _ALLOW)])


def _where(number: int, then: Sequence[bytes]) -> list[bytes]:
    """Do this at a system call, and let it go on after that."""
    return [_op(_JEQ, number, 0, len(then) + 1), *then, _op(_RET, _ALLOW)]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _argument(index: int) -> bytes:
    """Load the low half of an argument; both architectures are little-endian."""
    return _op(_LOAD, 16 + 8 * index)
