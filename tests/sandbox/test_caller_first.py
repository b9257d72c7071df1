"""What a call put off to other threads of Python is not done when it has returned, however busy the machine is."""

import os
import socket
import subprocess
import sys
import threading
import time

from kernelwright.sandbox._caller_first import reply

STARTED = """
import sys
import threading
from kernelwright.sandbox._caller_first import let_starters_go_first

let_starters_go_first()
seen = []
for _ in range(50):
    returned = []
    thread = threading.Thread(target=lambda: seen.append(len(returned)))
    thread.start()
    returned.append(True)
    thread.join()
callers = []


def look():
    frame = sys._getframe()
    while frame := frame.f_back:
        callers.append(frame.f_globals["__name__"])


thread = threading.Thread(target=look)
thread.start()
thread.join()
assert set(callers) == {"threading"}, callers
print(sum(seen))
"""


def test_a_thread_begins_its_work_once_its_starter_goes_on():
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, timeout=100)
    assert int(done.stdout) >= 48, (done.stdout, done.stderr)


def test_no_other_thread_runs_between_the_reply_and_the_next_word():
    ours, theirs = socket.socketpair()
    judge = os.fork()
    if judge == 0:
        heard = theirs.recv(5)
        time.sleep(0.2)
        theirs.sendall(b"next")
        os._exit(heard != b"reply")
    turns, over = [], threading.Event()

    def count():
        while not over.is_set():
            turns.append(time.monotonic())

    thread = threading.Thread(target=count)
    thread.start()
    begun = time.monotonic()
    reply(ours, b"reply")
    ended = time.monotonic()
    over.set()
    thread.join()
    with ours, theirs:
        assert ours.recv(4) == b"next"
    assert os.waitpid(judge, 0)[1] == 0
    assert [t for t in turns if t < begun], "it ran before"
    assert [t for t in turns if begun + 0.05 < t < ended - 0.05] == []
    assert ended - begun > 0.15
