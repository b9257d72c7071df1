"""Every error that Kernelwright raises.

A bad candidate is data (a `Verdict`), never an exception. An error is the user's or the machine's fault,
and its message says what was given, what was expected and what to do next.

    KernelwrightError                exit code
    ├── InputError                   2   the user's input is wrong
    │   ├── TaskError                2   a task file, symbol or definition cannot be used
    │   ├── NotFoundError            2   no such run, candidate, language, proposer ...
    │   └── ArgumentError            2   an argument of an op is wrong; a ValueError too
    ├── MissingToolError             4   a compiler, package or device is not there
    ├── ModelError                   1   a model gave no answer
    │   └── SpentError               1   no money is left to ask one
    ├── StoreError                   1   the store cannot be read or written
    ├── ProfilerError                1   a profiler gave no counters
    ├── ClusterError                 1   a cluster cannot be reached, or has no node to use
    ├── BusyError                    1   others held the device until this run's time was up
    └── WorkerError                  1   a worker did not start at all (a candidate's fault is data)
"""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb


def known_names(name: str, known: Iterable[str]) -> str:
    """Return a sentence that lists the known names, and suggests the one nearest to the given name.

    Example:
        >>> known_names("librery", ["inductor", "library"])
        "did you mean 'library'? There are inductor, library"
        >>> known_names("nosuch", [])
        'there are none'
    """
    names = sorted(known)
    nearest = get_close_matches(name, names, n=1)
    listed = ", ".join(names) or "none"
    return f"did you mean {nearest[0]!r}? There are {listed}" if nearest else f"there are {listed}"


def fault_of(error: Exception) -> str:
    """Describe in one line what the code of an extension raised, and where.

    Example:
        >>> try:
        ...     {}["tile"]
        ... except KeyError as error:
        ...     fault_of(error).partition(" (")[0]
        "KeyError: 'tile'"
    """
    place = extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said} ({Path(place.filename).name}, line {place.lineno})"


def end_of(error: BaseException) -> str:
    """Describe in one line why an activity ended.

    Example:
        >>> end_of(KeyboardInterrupt("SIGTERM")), end_of(KernelwrightError("the disk  is full"))
        ('interrupted by SIGTERM', 'the disk is full')
    """
    match error:
        case KeyboardInterrupt():
            return f"interrupted by {error.args[0] if error.args else 'SIGINT'}"
        case BrokenPipeError():
            return "nobody reads its output any more (broken pipe)"
        case MemoryError():
            return f"no memory was left: {fault_of(error)}"
        case KernelwrightError() | OSError():
            return " ".join(str(error).split())
        case GeneratorExit():
            return "its caller left it before its end"
        case SystemExit():
            return f"something asked to exit with code {error.code!r}"
        case Exception():
            return fault_of(error)
    return type(error).__name__


class KernelwrightError(Exception):
    """Base class of everything that Kernelwright raises on purpose."""

    exit_code = 1


class InputError(KernelwrightError):
    """The user's input is wrong."""

    exit_code = 2


class TaskError(InputError):
    """A task file, symbol or definition cannot be used."""


class NotFoundError(InputError):
    """A given name is unknown."""


class ArgumentError(InputError, ValueError):
    """An argument of an op is wrong."""


class MissingToolError(KernelwrightError):
    """A compiler, package or device is missing; the message explains how to get it."""

    exit_code = 4


class ModelError(KernelwrightError):
    """A model gave no answer."""


class SpentError(ModelError):
    """No money is left to ask a model."""


class StoreError(KernelwrightError):
    """The store cannot be read or written."""


class BusyError(KernelwrightError):
    """Others held the device until this run's time was up."""


class ClusterError(KernelwrightError):
    """A cluster cannot be reached, or has no node to use."""


class ProfilerError(KernelwrightError):
    """A profiler gave no counters."""


class WorkerError(KernelwrightError):
    """A worker could not be started at all."""
