"""The thread that calls goes first: what a call put off to other threads of Python is not done when it has returned.

On a busy machine such a thread is done before the judge has a processor and looks, and a kernel that returns before its
answer is there looks right. Here a thread that is started begins once its starter goes on, and the reply to a call is
sent, and the judge's next word awaited, without letting go of the interpreter's lock.

Covers: threads of `threading` and what is built on it, those of a pool made before too.
Does not cover: threads of native code; a thread that takes the lock while the call goes on (the judge looks at what
lies there when it has stopped the worker); a candidate that undoes this.
"""

import ctypes
import socket
import threading

_LIBC = ctypes.PyDLL(None)
"""The C library, called with the interpreter's lock held."""
_STARTER = """
def starter(begin):
    def start(self):
        work, gate = self.run, Lock()

        def run():
            with gate:
                del self.run
            work()

        with gate:
            self.run = run
            begin(self)

    return start
"""
"""Among the names of `threading`: what a thread runs sees no code of ours among its callers."""
_IN = 1
_MOST_MS = 10_000


class _Waited(ctypes.Structure):
    """What poll(2) waits for."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("happened", ctypes.c_short))


def let_starters_go_first() -> None:
    """From now on let a thread begin its work once `start` has returned to its starter."""
    space = dict(vars(threading))
    exec(compile(_STARTER, threading.__file__, "exec"), space)
    threading.Thread.start = space["starter"](threading.Thread.start)  # type: ignore[method-assign]  # of this process


def reply(sock: socket.socket, data: bytes) -> None:
    """Send all of `data`, and wait for the judge's next word, while no other thread of Python runs."""
    sent = max(_LIBC.send(sock.fileno(), data, ctypes.c_size_t(len(data)), 0), 0)
    if sent < len(data):
        sock.sendall(data[sent:])
    waited = _Waited(sock.fileno(), _IN, 0)
    _LIBC.poll(ctypes.byref(waited), ctypes.c_ulong(1), _MOST_MS)
