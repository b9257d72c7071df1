"""What workers are forked from begins before torch is imported here."""

import os
import subprocess
import sys

import pytest

from kernelwright.api import warmed as warmed_module

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


def test_a_process_of_its_own_builds_for_cuda_alone(tmp_path, monkeypatch):
    begun = []

    class Begun(subprocess.Popen):
        def __init__(self, command, **given):
            begun.append(command)
            super().__init__([sys.executable, "-c", "import time; time.sleep(0.2)"], **given)

    monkeypatch.setattr(warmed_module, "gpu_paths", lambda: ())
    monkeypatch.setattr(warmed_module.subprocess, "Popen", Begun)
    for language, asked in (("cpp", None), ("cuda", tmp_path / "kernel.py")):
        held = warmed_module._building(language, str(asked))
        with held:
            pass
        assert len(begun) == (asked is not None)
    assert held.poll() == 0, "it is waited for"
    assert begun[0][1:] == ["-P", "-m", "kernelwright.executor.ahead", str(tmp_path / "kernel.py")]


AHEAD = """
import sys
from kernelwright.executor import _native, ahead

_native._build_part = lambda name, folder, into: into.write_bytes(name.encode())
ahead.build()
assert "torch" not in sys.modules
(built,) = (p for p in _native.Settings.from_environment().cache.rglob("*.so") if p.read_bytes() == b"warps")
"""


@pytest.mark.needs("nvcc")
def test_the_executor_is_built_ahead_for_cuda(tmp_path):
    given = {**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", AHEAD], check=True, env=given)


EXTENSION = """
from kernelwright.executor import _cudart, _extension, _native, ahead

asked = []
_extension.extension = lambda tool, call, deadline_s, ahead: asked.append(call)
_native.engine_library = _native.kernel_headers = lambda: None
_cudart.built = lambda tool: None
for candidate in ("{good}", "{bad}", "{other}"):
    ahead.build(candidate)
assert asked == [dict(cuda_sources="kernels", functions=["f"])], asked
"""


@pytest.mark.needs("nvcc")
def test_extensions_are_built_ahead_and_what_is_no_python_disturbs_nothing(tmp_path):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("load_inline(name='f', cuda_sources='kernels', functions=['f'])\n")
    bad.write_text("load_inline(")
    code = EXTENSION.format(good=good, bad=bad, other=tmp_path / "none.py")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not done.stderr


@pytest.mark.needs("nvcc")
def test_the_process_ends_well_without_nvcc_and_without_a_file(tmp_path):
    given = {**os.environ, "KERNELWRIGHT_CACHE": str(tmp_path), "KERNELWRIGHT_NVCC": str(tmp_path / "none")}
    done = subprocess.run([*warmed_module._AHEAD, "none.py"], env=given, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
