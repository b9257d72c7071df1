"""The process that workers are forked from: it has imported torch, knows no secrets and runs no candidate.

    python -m kernelwright.sandbox._zygote DESCRIPTOR SETTINGS

Covers: a fresh process for each worker in milliseconds; a worker cannot reach the zygote (it is in another
PID namespace where those are permitted, is not dumpable, and the control socket is closed in the worker).
Does not cover: machines without PID namespaces and without Landlock, where a worker of the same user may
kill the zygote; the judge then starts another.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ._confinement import MESSAGE_BYTES, Confinement, Nesting
from ._namespaces import isolate_next_child, leave_network, return_to

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
COMPILER = ("torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codecache")
"""What the zygote of compiled baselines imports beyond that."""
_MODULES = ("torch", "numpy", "tvm_ffi", "kernelwright.languages", "kernelwright.sandbox._worker_main")


def main(arguments: list[str]) -> None:
    """Be a zygote whose settings are on the command line."""
    control = socket.socket(fileno=int(arguments[0]))
    options = json.loads(arguments[1])
    if options["leave_network"]:
        leave_network()
    _live(control, options["preload"])


def _live(control: socket.socket, preload: Sequence[str], nesting: Nesting | None = None) -> None:
    """Import everything, report, and fork a worker for each request until the judge hangs up."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    tempfile.tempdir = "/tmp"  # what is imported may ask, and a zygote has none
    gc.disable()  # what imports leave stays; to traverse it again and again takes a seventh of their time
    with _driver_untouched() as gpus:
        for name in (*_MODULES, *preload):
            importlib.import_module(name)
        _warm()
    gc.freeze()  # whoever collects from here on need not look at what imports left
    if set(COMPILER) <= set(preload) and not gpus:  # with a GPU, whatever is compiled starts its driver
        _warm_compiler()
    tempfile.tempdir = None  # each worker finds its own
    nesting = nesting or _probe_nesting()
    gc.collect()
    gc.freeze()
    gc.enable()
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _stay_at_messages(control)
    control.send(json.dumps({"nesting": nesting, "threads": len(os.listdir("/proc/self/task"))}).encode())  # noqa: PTH208
    _serve(control, nesting)


def _stay_at_messages(control: socket.socket) -> None:
    """Be signalled no more: until now only the judge's end could raise one, from now on its requests would."""
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) & ~os.O_ASYNC)


@contextlib.contextmanager
def _driver_untouched() -> Iterator[int]:
    """Let what is imported count GPUs without CUDA, which works in no process that was forked after it had started.

    Yields how many there are by their device files. tvm_ffi and the compiler ask as they are imported.
    """
    import torch

    gpus = sum(node.name[6:].isdigit() for node in Path("/dev").glob("nvidia*"))
    count = getattr(torch._C, "_cuda_getDeviceCount", None)
    if count is None or torch.version.hip:
        yield 0
        return
    torch._C._cuda_getDeviceCount = lambda: gpus
    try:
        yield gpus
    finally:
        torch._C._cuda_getDeviceCount = count


def _warm() -> None:
    """Do once what every worker would do first: imports behind calls, tables, the list of languages."""
    import torch

    from ._self_report import WITNESS
    from ._worker_state import language

    torch.manual_seed(0)
    for name in ("torch", "cpp"):
        language(name)
    WITNESS.remember()


def _warm_compiler() -> None:
    """Let torch compile once, in the cache that its workers share; what fails here fails again there, and is told."""
    from ..languages.torch import warm_compiler

    tempfile.tempdir = os.environ["TMPDIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    with contextlib.suppress(Exception):
        warm_compiler()
    del os.environ["TMPDIR"]


def _serve(control: socket.socket, nesting: Nesting) -> None:
    own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY) if nesting == "direct" else -1
    statuses: dict[int, int] = {}
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 2)
        _reap(statuses)
        if not data:
            _kill_all(children - statuses.keys())
            os._exit(0)
        request = json.loads(data)
        if "status" in request:
            child = request["status"]
            control.send(json.dumps({"status": statuses.pop(child, None)}).encode())
            children.discard(child)
            continue
        if "preload" in request:
            children.add(_split(control, request, nesting, descriptors))
        else:
            request["writable"] = tuple(request["writable"])
            children.add(_fork(control, Confinement(**request), nesting, own_namespace, descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(
    control: socket.socket, confinement: Confinement, nesting: Nesting, own: int, descriptors: list[int]
) -> int:
    if nesting == "direct":
        isolate_next_child()
    child = os.fork()
    if child == 0:
        if nesting == "launcher":
            _launch(control, confinement, descriptors)
        _become_worker(confinement, descriptors)
    if nesting == "direct":
        return_to(own)
    if nesting != "launcher":
        _answer(control, child, child)
    return child


def _split(control: socket.socket, request: Any, nesting: Nesting, descriptors: list[int]) -> int:
    """Fork another zygote: it goes on from what this one has imported, with an environment of its own."""
    child = os.fork()
    if child == 0:
        try:
            control.close()
            libc = ctypes.CDLL(None)
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as any is while it imports
            os.setsid()
            os.environ.clear()
            os.environ.update(request["environment"])
            os.dup2(descriptors[1], 1)
            os.dup2(descriptors[1], 2)
            _live(socket.socket(fileno=descriptors[0]), request["preload"], nesting)
        except BaseException:  # noqa: BLE001 - this process must never go on as its parent; the judge reads what it said
            traceback.print_exc()
        os._exit(70)
    _answer(control, child, child)
    return child


def _launch(control: socket.socket, confinement: Confinement, descriptors: list[int]) -> None:
    """Be the process in between: fork the worker in a PID namespace, wait for it, pass its end on."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    isolate_next_child()
    worker = os.fork()
    if worker == 0:
        _become_worker(confinement, descriptors)
    _answer(control, os.getpid(), worker)
    for descriptor in (control.fileno(), *descriptors):
        os.close(descriptor)
    _, status = os.waitpid(worker, 0)
    os._exit(abs(os.waitstatus_to_exitcode(status)) & 0x7F)


def _become_worker(confinement: Confinement, descriptors: list[int]) -> None:
    from ._worker_main import live

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    live(confinement, descriptors[0], descriptors[1])


def _answer(control: socket.socket, child: int, worker: int) -> None:
    pidfd = os.pidfd_open(worker)
    socket.send_fds(control, [json.dumps({"child": child}).encode()], [pidfd])
    os.close(pidfd)


def _reap(statuses: dict[int, int]) -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return
        statuses[child] = os.waitstatus_to_exitcode(status)
        while len(statuses) > 1000:
            del statuses[next(iter(statuses))]


def _kill_all(children: set[int]) -> None:
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _probe_nesting() -> Nesting:
    """Find out in a child which way to a PID namespace is open here."""
    child = os.fork()
    if child == 0:
        own = os.open("/proc/self/ns/pid", os.O_RDONLY)
        os._exit(0 if not isolate_next_child() else 1 if return_to(own) else 2)
    _, status = os.waitpid(child, 0)
    ways: tuple[Nesting, ...] = ("none", "direct", "launcher")
    return ways[os.waitstatus_to_exitcode(status)]


if __name__ == "__main__":
    main(sys.argv[1:])
