"""Threads of another runtime have all cores, where OpenMP binds torch's to one each."""

import os
import subprocess
import sys

CODE = """
import os, threading
import torch
from kernelwright.languages._runtimes import on_all_cores

torch.set_num_threads(len(os.sched_getaffinity(os.getppid())))
own, seen = os.sched_getaffinity(0), []
with on_all_cores():
    thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
    thread.start()
    thread.join()
print(len(own), len(seen[0]), os.sched_getaffinity(0) == own)
"""


def test_threads_that_are_started_inside_have_every_core_of_torchs():
    given = {**os.environ, "OMP_PROC_BIND": "true", "OMP_PLACES": "cores"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=100, env=given
    )
    own, inside, restored = done.stdout.split()
    assert (int(inside), restored) == (len(os.sched_getaffinity(0)), "True"), done.stderr
    assert int(own) == 1
