"""CUDA C++ → PTX by nvcc → Module. No GPU is needed, nor the CUDA driver.

    module = load_cuda(source, target="sm_80")
    run = module["scale"](grid=8, block=256, arguments=[x, Uninitialised(y), 2.0, n])

Covers: `__global__` functions of one source, with the headers of the toolkit.
Does not cover: host code: launch the kernels from Python, or see `program.py`.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..config import Settings
from ..errors import InputError
from ..languages._process import run_tool
from ._cudart import nvcc
from ._nvcc import contents, included, standard, version
from .module import Module

_COMPILE_S = 180.0


def compile_cuda(
    source: str, *, target: str = "sm_80", flags: Sequence[str] = (), include: Sequence[Path] = ()
) -> str:
    """Return the PTX that nvcc makes of a source; kept in the build cache.

    Args:
        source: Text of a `.cu` file.
        target: `sm_80`, `sm_90` ...
        flags: More words for nvcc, for example `-DTILE=16`.
        include: Folders of headers.

    Raises:
        InputError: where nvcc refuses the source; the message holds its words.
        MissingToolError: where there is no nvcc.
    """
    tool = nvcc()
    words = [tool, "-ptx", f"-arch={target}", "-lineinfo", *standard(flags), *flags]
    of = "\0".join([version(tool), *words[1:], contents(include), source])
    key = hashlib.sha256(of.encode()).hexdigest()[:32]
    path = Settings.from_environment().cache / "executor" / f"{key}.ptx"
    if path.is_file():
        return path.read_text()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".nvcc-") as name:
        folder = Path(name)
        (folder / "kernel.cu").write_text(source)
        done = run_tool(
            [*words, *included(include), "kernel.cu", "-o", "kernel.ptx"],
            deadline_s=_COMPILE_S, folder=folder, closed=True, readable=include,
        )  # fmt: skip
        if done.timed_out:
            raise InputError(f"nvcc did not end within {_COMPILE_S:g} s")
        if done.returncode != 0:
            raise InputError(f"nvcc refused the source:\n{done.output[:4000]}")
        text = (folder / "kernel.ptx").read_text().replace(str(folder.resolve()) + "/", "")
        (folder / "kept").write_text(text)
        (folder / "kept").replace(path)
    return text


def load_cuda(
    source: str, *, target: str = "sm_80", flags: Sequence[str] = (), include: Sequence[Path] = ()
) -> Module:
    """Compile a source and return its kernels; see `compile_cuda`."""
    return Module.load(compile_cuda(source, target=target, flags=flags, include=include))
