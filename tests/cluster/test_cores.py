"""Claims on cores: no two evaluators have the same, until there are none left."""

import os
import subprocess
import sys

CLAIM = """
import sys, time
from pathlib import Path
from kernelwright.cluster._cores import Cores
import os
one = Cores(int(sys.argv[1]), Path(sys.argv[2]))
print(*one.names, one.alone, sorted(os.sched_getaffinity(0)) == list(one.names), flush=True)
sys.stdin.read()
"""


def claimed(count, folder):
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(count), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    *names, alone, pinned = process.stdout.readline().split()
    assert pinned == "True"
    return process, {int(n) for n in names}, alone == "True"


def end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_cores_are_claimed_shared_where_none_is_left_and_free_again_after_a_kill(tmp_path):
    whole = len(os.sched_getaffinity(0))
    first, mine, alone = claimed(0, tmp_path)
    assert (len(mine), alone) == (whole, True)
    second, shared, alone = claimed(1, tmp_path)
    assert (len(shared), alone) == (1, False)
    end(first)
    third, again, alone = claimed(1, tmp_path)
    assert (len(again), alone) == (1, True)
    end(second)
    end(third)


def test_cores_of_which_none_is_left_are_shared_alike(tmp_path):
    allowed = os.sched_getaffinity(0)
    cores = sorted(allowed)[:2]
    os.sched_setaffinity(0, cores)
    held = []
    try:
        for _ in range(5):
            held.append(claimed(1, tmp_path))
    finally:
        os.sched_setaffinity(0, allowed)
        for process, *_ in held:
            end(process)
    names = [min(mine) for _, mine, _ in held]
    had = [names.count(core) for core in cores]
    assert (sum(had), max(had) - min(had) <= 1) == (5, True)
    assert [alone for *_, alone in held] == [place < len(cores) for place in range(5)]
