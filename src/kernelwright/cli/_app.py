"""The program: command names, exit codes, one-sentence errors."""

import atexit
import errno
import gc
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from keyword import iskeyword
from types import FrameType
from typing import NoReturn, TextIO

from cyclopts import (
    App,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnusedCliTokensError,
)

from .. import __version__
from ..errors import KernelwrightError, StoreError, end_of, known_names

INTERRUPTED = 130
WRONG_INPUT = 2
_OF_THE_DISK = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO,
})  # fmt: skip
"""Disk and permission errors that may occur at any moment; any other `OSError` is our own bug."""

_COLLECTIONS = 50_000, 20, 50
"""Thresholds of Python's garbage collector. The objects that torch's compiler allocates on import stay alive; by
default they are traversed again and again, for a seventh of the processor time until a task is captured."""

_GROUPS = {
    "Search": {
        "plan": "Say what is worth changing in a whole model, before anything is spent.",
        "optimize": "Search for a faster kernel, verify it, and package it.",
        "resume": "Go on with a run that was interrupted.",
        "judge": "Verify and measure a candidate against a task.",
        "export": "Write a run's accepted kernel as an importable package.",
        "recheck": "Judge an exported package again, here and now.",
        "kernels": "List what was accepted on this machine, recheck it after an upgrade, or take it out of use.",
        "bundle": "Write a folder that verifies and times candidates on another machine's device.",
        "import": "Check and decide the records that a bundle brought back.",
    },
    "Whole models": {
        "drift": "Compare a changed model with its native form, as deployed.",
    },
    "Tasks": {
        "task": "Let a language model write a task from words.",
        "describe": "Say what a task computes, to whoever writes a kernel for it.",
        "profile": "Say where the time of the native op goes.",
        "trace": "Say what a recorded trace shows: launches, queues, idle time, chains worth fusing.",
        "bound": "Say how fast a task could be on a device, by physics.",
        "admit": "Show that a task's checks reject every mutant.",
    },
    "Benchmarks": {
        "suites": "List the benchmarks that are known, and which of them are here.",
        "suite": "Search, judge, audit or examine a benchmark: its verdict and ours, side by side.",
    },
    "Runs": {
        "runs": "List the runs in the store.",
        "show": "Show one run: its decision and every candidate.",
        "report": "Write a run as one self-contained HTML file.",
        "decide": "Decide again from the raw blocks in the store.",
    },
    "What earlier runs taught": {
        "lessons": "List, search, exchange or audit what earlier runs taught.",
        "prompts": "List the versions of the prompts with what came of them.",
        "trajectories": "Write runs as data to train on: a line of JSON for each candidate.",
    },
    "Parts of a search": {
        "recipes": "List the field's systems as recipes over the same parts.",
        "strategies": "List what decides which edit to ask for next, with its settings.",
        "compare": "Run recipes head to head at equal budget.",
        "simulate": "Replay a recorded run: what other strategies would have found in it.",
        "tune": "Replay a recorded search space: what a tuner would have found in it.",
    },
    "Kernels": {
        "grid": "Say in which order blocks should visit tiles on a GPU of several chiplets.",
        "web": "Make and tune kernels for the browser, in one.",
        "execute": "Execute a kernel's PTX on the CPU, sanitised and counted.",
        "ops": "List, build or verify the ops that kernelwright.ops offers.",
        "craft": "Write and judge assembly programs for instruction sets that no model has seen.",
    },
    "Around it": {
        "languages": "Say what is timed, sanitised, executed or compiled, here and where it was last so.",
        "doctor": "Say what is here, what is missing, and what to do about it.",
        "mcp": "Serve the tools to a coding agent over MCP; --guide prints the guide it reads.",
    },
}
"""The commands as listed in the help; each is the function in the module of the same name, `import_` for `import`."""

COMMANDS = tuple(name for names in _GROUPS.values() for name in names)
"""Names of all commands."""


def _default_text(value: object) -> str | None:
    """Return a default's text for the help; None for flags that are unset by default."""
    return None if value is False or value in (None, (), "") else str(value)


app = App(
    name="kernelwright",
    help="Takes a PyTorch op, module or kernel and gives back a faster one its owner can trust.",
    version=__version__,
    default_parameter=Parameter(negative="", show_default=_default_text),
    result_action="return_value",
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
    print_error=False,
)
for _title, _listed in _GROUPS.items():
    _group = Group.create_ordered(_title)
    for _place, (_name, _help) in enumerate(_listed.items()):
        _module = f"{_name}_" if iskeyword(_name) else _name
        app.command(
            f"kernelwright.cli.{_module}:{_module}", name=_name, help=_help, group=_group, sort_key=_place
        )
app["--help"].group = app["--version"].group = _group


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    0: success; 1: `judge` rejected the candidate, or the store or a worker failed; 2: the input is wrong;
    3: `judge` could not decide; 4: a tool is missing; 130: interrupted, with all finished work stored.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP on purpose
            signal.signal(number, _interrupt)
    gc.set_threshold(*_COLLECTIONS)
    try:
        if given and given[0] in COMMANDS:
            app[given[0]].help = None  # use its docstring, which is more detailed than its line in the list
        return int(app(given) or 0)
    except CycloptsError as error:
        asked = " ".join(["kernelwright", *(error.command_chain or ()), "--help"])
        return _fail(f"{_in_words(error)}; see `{asked}`", WRONG_INPUT, given)
    except KernelwrightError as error:
        return _fail(str(error), error.exit_code, given)
    except BrokenPipeError as error:
        return _unread(error, given)
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            return _crash(error, given)
        return _fail(
            f"{error.filename or 'a file'} could not be written or read ({error.strerror}); free some space, fix its "
            "permissions, or choose other folders with --store, --to and KERNELWRIGHT_CACHE",
            StoreError.exit_code,
            given,
        )
    except KeyboardInterrupt as error:
        return _fail(f"{end_of(error)}; everything finished is kept", INTERRUPTED, given)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's edge: our own bugs are reported readably
        if isinstance(error.__context__, BrokenPipeError):  # what prints the help asks to exit then
            return _unread(error.__context__, given)
        return _crash(error, given)


def program() -> NoReturn:
    """Run the program and end the process.

    Modules are not taken apart, which takes torch 0.4 s, unless a thread is still at work.
    """
    code = main()
    if all(thread.daemon or thread is threading.main_thread() for thread in threading.enumerate()):
        atexit._run_exitfuncs()
        _silence()
        os._exit(code)
    sys.exit(code)


def _in_words(error: CycloptsError) -> str:
    """Describe in one sentence what is wrong with the command line."""
    tokens = error.unused_tokens or [""]
    match error:
        case UnknownCommandError():
            return f"no command is called {tokens[0]!r}; {known_names(tokens[0], COMMANDS)}"
        case UnusedCliTokensError():
            return f"{tokens[0]!r} is more than the command takes"
        case MissingArgumentError(argument=argument) if argument and argument.field_info.is_positional:
            return f"{argument.name.removeprefix('--').upper()} is missing"
    return str(error).rstrip(".")


def _unread(error: BrokenPipeError, given: Sequence[str]) -> int:
    """Say that nobody reads what the program prints."""
    _silence()
    return _fail(end_of(error), KernelwrightError.exit_code, given)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    del frame
    raise KeyboardInterrupt(signal.Signals(signum).name)


def _crash(error: Exception | SystemExit, given: Sequence[str]) -> int:
    """Report where one of our own bugs occurred, for a bug report, and end with a readable message."""
    with suppress(OSError):
        traceback.print_exception(error)
    return _fail(end_of(error), KernelwrightError.exit_code, given)


def _fail(message: str, code: int, given: Sequence[str]) -> int:
    sentence = " ".join(message.split())
    with suppress(OSError):
        print(f"kernelwright: {sentence}", file=sys.stderr)
    if "--json" in given:
        try:
            print(json.dumps({"event": "error", "message": sentence, "exit_code": code}), flush=True)
        except OSError:
            _silence()
    return code


def _silence() -> None:
    """Write what is left of the output, or redirect it to nowhere, so that no error is reported while exiting."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not _works(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _works(stream: TextIO) -> bool:
    try:
        stream.flush()
    except OSError:
        return False
    return True
