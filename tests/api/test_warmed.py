"""What workers are forked from begins before torch is imported here."""

import os
import subprocess
import sys

import pytest

CODE = """
import sys
from kernelwright.api.warmed import warmed

with warmed() as zygotes:
    assert "torch" not in sys.modules and zygotes.keys == ((False, ()),)
    from kernelwright.config import Settings
    from kernelwright.sandbox import Pool

    assert "torch" in sys.modules
    with Pool(Settings.from_environment(), arena_bytes=1 << 20, zygotes=zygotes) as pool:
        assert "environment" in pool.layers and pool.threads == zygotes.threads
        (process,) = [z._process for z in zygotes._running.values()]
assert process.poll() is not None and not zygotes.staging.exists()
"""


def test_zygotes_begin_without_torch_serve_a_pool_and_end_with_it():
    subprocess.run([sys.executable, "-c", CODE], check=True)


AHEAD = """
import sys
from kernelwright.api.warmed import warmed
from kernelwright.executor import _native

_native._build_part = lambda name, folder, into: into.write_bytes(name.encode())
with warmed("cuda"):
    assert "torch" not in sys.modules
(built,) = (p for p in _native.Settings.from_environment().cache.rglob("*.so") if p.read_bytes() == b"warps")
"""


@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_the_executor_is_built_ahead_for_cuda(tmp_path):
    given = {**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", AHEAD], check=True, env=given)
