"""Pools of tests fork their zygotes from one, as they fork those of baselines."""

import os

import psutil
import pytest
import torch
from tests.sandbox.conftest import call_once

from kernelwright.config import Settings
from kernelwright.sandbox import Pool

PREPARED = "import os, sys\nhere = 'torch' in sys.modules\ndef run(x): return x + here\n"


def parents_of(folder, count=2):
    settings = Settings.from_environment(
        {"KERNELWRIGHT_SANDBOX": "landlock", "KERNELWRIGHT_CACHE": str(folder)}
    )
    for _ in range(count):
        with Pool(settings, arena_bytes=1 << 20) as pool:
            assert torch.equal(call_once(pool, PREPARED), torch.full((4,), 2.0))
            (zygote,) = pool._zygotes._running.values()
            process = psutil.Process(zygote._process.pid)
            yield process.ppid()
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.needs("Landlock")
def test_zygotes_of_all_pools_come_from_one_and_end_with_their_pool(tmp_path):
    first, second = parents_of(tmp_path)
    assert first == second != os.getpid()
    assert psutil.Process(first).ppid() == os.getpid()
