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
with warmed("cuda") as zygotes:
    assert "torch" not in sys.modules
    ((trusted, imported),) = zygotes.keys  # one, which imports what executes while torch is imported here
    assert not trusted and "kernelwright.executor.candidates" in imported
(built,) = (p for p in _native.Settings.from_environment().cache.rglob("*.so") if p.read_bytes() == b"warps")
"""


@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_the_executor_is_built_ahead_for_cuda(tmp_path):
    given = {**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", AHEAD], check=True, env=given)


EXTENSION = """
from kernelwright.executor import _cudart, _extension, _native
from kernelwright.api.warmed import warmed

asked = []
_extension.extension = lambda tool, call, deadline_s, ahead: asked.append(call)
_native.engine_library = _native.kernel_headers = lambda: None
_cudart.built = lambda tool: None
for candidate in ("{good}", "{bad}", "{other}"):
    with warmed("cuda", candidate):
        pass
assert asked == [dict(cuda_sources="kernels", functions=["f"])], asked
"""


@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_extensions_are_built_ahead_and_what_is_no_python_disturbs_nothing(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("load_inline(name='f', cuda_sources='kernels', functions=['f'])\n")
    bad.write_text("load_inline(")
    code = EXTENSION.format(good=good, bad=bad, other=tmp_path / "none.py")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not done.stderr
