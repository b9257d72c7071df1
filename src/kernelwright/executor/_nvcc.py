"""What every use of nvcc here shares: its words, what its sources are kept by, and calls that are not executed.

It imports neither NumPy nor translation, so that nvcc is started before they are imported.
"""

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..languages import imported_names
from ..languages._process import run_tool
from . import _cudart

_VENDOR: Final = re.compile(
    r"_*(cuda[A-Z]|cu[A-Z]|cublas|cudnn|cufft|curand|cusparse|cusolver|nvrtc|nccl|nvshmem)"
)
_LOADS: Final = ("dlopen", "dlmopen")
"""What host code loads the driver by, or what else is not here, when it runs."""
_NVTX: Final = b"NVTX_INJECTION64_PATH"
"""In a library whose sources include NVTX, as CUB's do: it loads a profiler, if this variable names one."""
_NEWEST: Final = re.compile(
    r"wgmma|setmaxnreg|cp\.async\.bulk|tensormap|CUtensorMap|fence\.proxy|cluster|barrier_arrive_tx"
)


def flags_for(target: str) -> list[str]:
    """Return the words that have nvcc put a target's PTX into a library, to be loaded with a runtime of our own.

    Example:
        >>> flags_for("sm_90")[0]
        '-gencode=arch=compute_90,code=compute_90'
    """
    made = target.replace("sm_", "compute_")
    return [f"-gencode=arch={made},code={made}", "--no-compress", "-lineinfo", "--cudart=none"]


def target_for(text: str) -> str:
    """Return the target whose PTX is executed: sm_90, or sm_90a where the source uses what only that has.

    Example:
        >>> target_for("wgmma.fence.sync.aligned")
        'sm_90a'
    """
    return "sm_90a" if _NEWEST.search(text) else "sm_90"


def unknown_calls(library: Path, sources: Mapping[str, str]) -> str:
    """Say what of CUDA's a library calls, or what it loads libraries by, that is not executed, with its line.

    Args:
        library: A built library; its file is read, it is not loaded.
        sources: The text of each file, by name.

    Returns:
        A sentence; nothing where all is executed.
    """
    known = _cudart.functions()
    named = imported_names(library)
    by_header = _NVTX in library.read_bytes() and not any(
        word in t for t in sources.values() for word in _LOADS
    )
    loads = () if by_header else _LOADS
    missing = sorted(n for n in named if (_VENDOR.match(n) and n not in known) or n in loads)
    if not missing:
        return ""
    return "not executed: " + ", ".join(f"{name}{_place_of(name, sources)}" for name in missing)


def _place_of(name: str, sources: Mapping[str, str]) -> str:
    word = re.compile(rf"\b{re.escape(name.partition('_v')[0])}")
    for file, text in sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            if word.search(line):
                return f" at {file}:{number}"
    return ""


def standard(flags: Sequence[str]) -> list[str]:
    """Return the word for the standard of C++, where flags name none.

    Example:
        >>> standard([]), standard(["-std=c++20"])
        (['-std=c++17'], [])
    """
    return [] if any(f.startswith(("-std", "--std")) for f in flags) else ["-std=c++17"]


def included(folders: Sequence[Path]) -> list[str]:
    """Return the words by which nvcc finds headers."""
    return [f"-I{folder.resolve()}" for folder in folders]


def contents(folders: Sequence[Path]) -> str:
    """Name all that stands in folders: part of what a compiled source is kept by."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            text = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(text)} ".encode() + text)
    return digest.hexdigest()


@functools.lru_cache
def version(tool: str) -> str:
    """Return what nvcc says of its version."""
    return run_tool([tool, "--version"], deadline_s=60).output
