"""The actor on a node: the niceness that Ray gives its workers is taken back where that is permitted, else told."""

from tests.forked import run

PROGRAM = """
import os, threading
from kernelwright.cluster._actor import as_fast_as

def niceness(thread=0):
    return os.getpriority(os.PRIO_PROCESS, thread)

def permitted():
    child = os.fork()
    if not child:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, niceness() - 1)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0

owner, over = os.getppid(), threading.Event()
os.nice(9)
thread = threading.Thread(target=over.wait)
thread.start()
alike = as_fast_as(owner)
left = {niceness(), niceness(thread.native_id)}
over.set()
expected = niceness(owner) + (0 if alike else 9)
print(alike, permitted(), left == {expected})
"""


def test_rays_niceness_is_taken_back_where_that_is_permitted(tmp_path):
    ended = run(["-c", PROGRAM], cwd=tmp_path)
    alike, permitted, all_threads = ended.stdout.split()
    assert alike == permitted, ended.stderr
    assert all_threads == "True"
