"""A CUDA source's object → what its host half does besides calling CUDA; empty if nothing.

What a host half computes may be wrong, or slow, on a machine whose GPU has a memory of its own; and what runs next to a
harness can forge what it says. So a kernel is taken for right only where its machine code shows that the host does no
more than work out sizes on its own stack, launch kernels and call CUDA.

Covers: reads and writes through pointers, indirect jumps and calls, system calls, functions other than those listed.
Does not cover: other processors than x86-64, which have nothing to show; overflow of an array of its own on its stack.
"""

import platform
import re
import shutil
from pathlib import Path

from ..languages import outside_instructions
from ..languages._process import run_tool

FLAGS = (
    "-fPIC,-O2,-fomit-frame-pointer,-fvisibility=hidden,-fno-stack-protector,-fcf-protection=none,-fno-plt,"
    "-fno-asynchronous-unwind-tables,-fno-jump-tables"
)
"""Flags of the host's compiler by which what lies on the stack is read by the stack's pointer alone."""
_CALLED = re.compile(
    r"__cuda(?:(?:Push|Pop)CallConfiguration|GetKernel|LaunchKernel|(?:Unr|R)egister\w+|InitModule)|atexit|__dso_handle"
    r"|_Unwind_Resume|__gxx_personality_v0|__cxa_(?:guard_\w+|atexit|begin_catch|end_catch|rethrow)|_ZSt9terminatev"
    r"|cuda(?:LaunchKernel(?:ExC)?|LaunchCooperativeKernel|Malloc(?:Async)?|Free(?:Async)?|Memset(?:Async)?"
    r"|(?:Device|Stream|Event)Synchronize|GetLastError|PeekAtLastError|GetErrorString|GetErrorName"
    r"|FuncSet(?:Attribute|CacheConfig)|MemcpyToSymbol(?:Async)?|Stream(?:Create\w*|Destroy|WaitEvent)"
    r"|Event(?:Create\w*|Destroy|Record\w*))"
    r"|replay_cudaMemcpy(?:Async)?|f?printf|__f?printf_chk|f?puts|fputc|putchar|fwrite|fflush|perror|exit|abort"
    r"|__assert_fail|stderr|stdout|_GLOBAL_OFFSET_TABLE_"
    r"|(?:sqrt|pow|exp|exp2|log|log2|log10|ceil|floor|round|fmax|fmin|fabs|rsqrt)f?"
)
"""What a host half may call: launches, memory on the device, sizes, and words to a person."""
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\t(\S+)(?:\s+([^#<]*))?")
_SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_RELOCATED = re.compile(r"^\s+[0-9a-f]+: (R_X86_64_\w+)\s+(\S+?)(?:[-+]0x[0-9a-f]+)?$")
_MEMORY = re.compile(r"(%[fg]s:)?(-?0x[0-9a-f]+)?\(([^)]*)\)")
_UNDEFINED = re.compile(r"\*UND\*\s+[0-9a-f]+ (?:\.hidden )?(\S+)$")
_LEAVES = ("j", "call", "ret", "notrack", "bnd")
_OWN_STACK = re.compile(r"(?:add|sub) +\$0x[0-9a-f]+,|lea +-?0x[0-9a-f]+\(%rsp\),")
_TEXT = re.compile(r"lea|nop|data16|cs$")
_STRINGS = re.compile(r"(rep|repz|repnz|lods|stos|scas|movs[bwlq]?$|cmps|xlat|in|out|enter|leave)")
_WRITES_COUNTS = re.compile(rb"%[-+ #0-9$*.']*(?:hh|h|ll|l|j|z|t)?n(?![a-z_]*id\b)")


def departs(object_file: Path) -> str:
    """Say what the host half of a compiled source does besides calling CUDA; empty if nothing.

    Args:
        object_file: What nvcc made with `FLAGS`.
    """
    objdump = shutil.which("objdump")
    if objdump is None or platform.machine() != "x86_64":
        return "there is nothing here that reads its host half's machine code"
    if outside := outside_instructions(object_file):
        return f"its host half has {', '.join(sorted(outside))}"
    if _WRITES_COUNTS.search(object_file.read_bytes()):
        return "its host half prints how much it has printed, which writes through a pointer"
    done = run_tool([objdump, "-tdr", "--no-show-raw-insn", object_file], deadline_s=60.0, limit=64_000_000)
    if done.returncode:
        return "its host half's machine code cannot be read"
    table, *sections = done.output.split("Disassembly of section ")
    said = (calls_more(table), *(reads_more(section) for section in sections))
    return next(filter(None, said), "")


def calls_more(table: str) -> str:
    """Say what a table of symbols leaves to others that is not listed; empty if nothing.

    Example:
        >>> calls_more("0000000000000000         *UND*\\t0000000000000000 getenv")
        'its host half calls getenv'
    """
    names = (found[1] for line in table.splitlines() if (found := _UNDEFINED.search(line)))
    more = next((name for name in names if not _CALLED.fullmatch(name)), "")
    return f"its host half calls {more}" if more else ""


def reads_more(section: str) -> str:
    """Say where a section's code reads or writes elsewhere than on its stack and in variables of its own.

    Example:
        >>> reads_more("0 <f>:\\n   0:\\tmov    %eax,0x8(%rsp)\\n")
        ''
        >>> reads_more("0 <f>:\\n   0:\\tmov    (%rdi),%eax\\n")
        "its host half computes: in f, 'mov (%rdi),%eax'"
    """
    inside, streams, lines = "", set[str](), section.splitlines()
    starts = {found[1] for line in lines if (found := _INSTRUCTION.match(line))}
    for at, line in enumerate(lines):
        if found := _SYMBOL.match(line):
            inside, streams = found[1], set()
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        name, words = found[2], (found[3] or "").strip()
        relocated = _RELOCATED.match(lines[at + 1]) if at + 1 < len(lines) else None
        if not _plain(name, words, relocated, streams, starts):
            return f"its host half computes: in {inside}, '{name} {words}'"
        into = words.rpartition(",")[2]
        streams = set() if name.startswith(_LEAVES) else streams - {into}
        if (
            relocated
            and "GOTPCREL" in relocated[1]
            and relocated[2] in ("stderr", "stdout")
            and name == "mov"
        ):
            streams = streams | {into}
    return ""


def _plain(
    name: str, words: str, relocated: re.Match[str] | None, streams: set[str], starts: set[str]
) -> bool:
    """Tell whether an instruction touches its stack, variables of its own and registers alone.

    `streams` are registers with the address of `stderr` or `stdout`; `starts` are where instructions begin.
    """
    if _STRINGS.match(name):
        return False
    if name.startswith(_LEAVES):
        if words.startswith("*"):
            return words == "*0x0(%rip)" and relocated is not None and "GOTPCREL" in relocated[1]
        return name.startswith("ret") or relocated is not None or words.split(" ", 1)[0] in starts
    if words.rpartition(",")[2] == "%rsp":
        return bool(_OWN_STACK.match(f"{name} {words}"))
    found = _MEMORY.search(words)
    if found is None or _TEXT.match(name):
        return True
    return not found[1] and (found[3] in ("%rip", "%rsp") or found[3] in streams)
