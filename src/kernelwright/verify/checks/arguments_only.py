"""A compiled kernel asks for no clock, no random number, no environment and no file: it depends on its arguments."""

import re
from pathlib import Path

from ...languages import imported_names, outside_instructions
from ...records import Finding
from .._case import Case
from .._protocol import Depth, failed, passed, unknown
from .._trial import Trial

_LIBRARY = "kernel.so"
_KINDS = {
    "a clock": r"clock(_gettime|_getres)?|time|times|gettimeofday|ftime|timespec_get|getrusage|omp_get_wti(me|ck)"
               r"|sysinfo|timer_create|setitimer|alarm|_ZNSt6chrono.*",
    "random numbers": r"s?rand(_r|om|om_r)?|random(_r)?|[delmjn]rand48(_r)?|s?rand48(_r)?|getrandom|getentropy"
                      r"|arc4random.*|_ZNSt13random_device.*",
    "the environment": r"(secure_|__secure_)?getenv|(__|_)?environ|getauxval|uname|gethostname",
    "the process or processor it runs on": r"getp?pid|gettid|pthread_self|sched_getcpu|getcpu",
    "files or other processes": r"(f?open|openat|creat)(64)?|__open.*|popen|system|fork|vfork|clone|socket"
                                r"|.*basic_(filebuf|ifstream|fstream).*|_ZNSt10filesystem.*",
    "what the process keeps from call to call":
        r"__errno_location|(bsd_|sysv_)?signal|sig(action|procmask|altstack|setmask|blockmask)|pthread_sigmask"
        r"|pthread_[gs]et(name_np|specific)|pthread_key_create|tss_(create|[gs]et)|(arch_)?prctl|personality"
        r"|[gs]etrlimit(64)?|prlimit(64)?|nice|[gs]etpriority|umask|strtok|(set|use|new)locale|(set|unset|put|clear)env"
        r"|mkstemp(64)?|shm(get|at|_open)|sem(get|op|ctl|_open)|mq_open|msg(get|snd|rcv)|memfd_create|eventfd|pipe2?",
    "symbols or system calls by number or name": r"syscall|dlopen|dlsym|dlvsym|dlmopen|dl_iterate_phdr",
}  # fmt: skip
_RANDOM = "random numbers"


class ArgumentsOnly:
    """Read the library's imports and instructions; nothing is called.

    Covers: C++ candidates: clocks, random numbers, environment, identity, files, what a process keeps for its threads
    (signals, limits, the last error) and `dlsym` by import; `rdtsc`, `rdrand`, `rdpid`, bases of segments and system
    calls by instruction, where objdump is installed (`disassembled` says so).
    Does not cover: Python; addresses of memory; number and names of threads; what libraries that it is linked with
    do; instructions hidden from a linear disassembly.
    """

    name = "arguments-only"
    depth: Depth = "screen"

    def probe(self, trial: Trial, case: Case) -> Finding:  # noqa: ARG002 - it calls nothing
        """Fail on the first symbol or instruction that reads something else than arguments; the case is not called."""
        build = trial.build
        if trial.candidate.language != "cpp" or build.artefact is None:
            return passed(self.name)
        library = Path(build.artefact) / _LIBRARY
        try:
            imports = imported_names(library)
        except (OSError, ValueError) as error:
            return unknown(self.name, f"the imports of the library could not be read: {error}")
        random = trial.problem.task.contract.stochastic
        if said := read_besides(imports, random=random):
            return failed(self.name, said)
        used = outside_instructions(library)
        if used and (beyond := used - ({"rdrand", "rdseed"} if random else set())):
            return failed(
                self.name,
                f"the library holds the instruction {min(beyond)}; a kernel computes from arguments",
            )
        return passed(self.name, imports=len(imports), disassembled=used is not None)


def read_besides(imports: frozenset[str], *, random: bool = False) -> str:
    """Say what imported symbols read besides arguments; empty where nothing does.

    Args:
        imports: Names without versions.
        random: Whether the task is random, so that random numbers are its business.

    Example:
        >>> read_besides(frozenset({"memcpy", "getenv"}))
        'the library imports getenv, which reads the environment; a kernel computes from its arguments'
    """
    for kind, pattern in _KINDS.items():
        if random and kind == _RANDOM:
            continue
        if found := sorted(n for n in imports if re.fullmatch(pattern, n)):
            return f"the library imports {found[0]}, which reads {kind}; a kernel computes from its arguments"
    return ""
