"""PTX → whether ptxas takes it, where one is here: of what no compiler's own ptxas has seen.

ptxas is asked for a virtual architecture (`compute_90`), for which it reads and checks everything and makes no code:
20 to 100 milliseconds, once for each text, since its answer is kept in the build cache. nvcc does the same with PTX
that it puts into a library, and Triton makes machine code, so modules of theirs are loaded as assembled.

Covers: syntax, modifiers, types of operands, what a target or version of the ISA lacks, as that ptxas knows them.
Does not cover: a version of PTX or a target that the ptxas does not know: then nothing was checked, and that is said.
"""

import contextlib
import functools
import hashlib
import importlib.util
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..config import Settings
from ..languages._process import run_tool
from ._errors import PtxError

_READ_S: Final = 20.0
_OLDEST: Final = 75
"""The oldest target that a ptxas of today reads for; it takes PTX for older ones."""
_SAID: Final = re.compile(r"^ptxas (?:\S+, line (\d+); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)
_UNKNOWN: Final = re.compile(
    r"Unsupported \.version|is not defined for option|SM version specified by \.target"
)
_LACKS: Final = re.compile(r"\.target|\.version|PTX ISA|\bsm_\d")
"""In a sentence of ptxas's about what the target or the version of PTX lacks, and another has."""
_LOCATION: Final = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)", re.MULTILINE)
_FILE: Final = re.compile(r'^\s*\.file\s+(\d+)\s+"(?:[^"]*/)?([^"/]+)"', re.MULTILINE)
_TARGET: Final = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)


def unread(ptx: str) -> str:
    """Have ptxas read PTX; return why it could not, and nothing where it did and takes it.

    Raises:
        PtxError: where ptxas refuses it, with its own sentence and line.
    """
    tool = ptxas()
    if not tool:
        return "not checked by ptxas: there is none here"
    found = _TARGET.search(ptx)
    known = found is not None and int(found[1]) >= _OLDEST
    virtual = f"compute_{found[1]}{found[2]}" if found and known else f"compute_{_OLDEST}"
    key = hashlib.sha256("\0".join([_version(tool), virtual, ptx]).encode()).hexdigest()[:32]
    kept = Settings.from_environment().cache / "executor" / f"{key}.ptxas"
    if not kept.is_file() or (said := kept.read_text()).startswith("not checked"):
        said = _read(tool, virtual, ptx)
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=kept.parent, prefix=".ptxas-", delete=False) as file:
                file.write(said)
            Path(file.name).replace(kept)
    if said.startswith("ptxas refuses"):
        raise PtxError(said)
    return said


def refused_in(said: str, texts: Sequence[str]) -> tuple[str, bool]:
    """Find in what nvcc said what ptxas refused first: its sentence with the lines of the PTX and of the source.

    Args:
        said: What nvcc wrote.
        texts: The PTX that it had made; the source's line is looked up where there is one.

    Returns:
        The sentence, and whether it holds for every target; of ill-formed assembly it does. No sentence where ptxas
        refused nothing.

    Example:
        >>> refused_in("ptxas k.ptx, line 7; error   : Unknown symbol 'q'", [])
        ("ptxas refuses this PTX at line 7: Unknown symbol 'q'", True)
    """
    found = next((m for m in _SAID.finditer(said) if m[1]), None)
    if found is None:
        return "", False
    source = _source_at(texts[0], int(found[1])) if len(texts) == 1 else ""
    words = f"ptxas refuses this PTX at line {found[1]}{source}: {found[2].strip()}"
    return words, not _LACKS.search(found[2])


def _source_at(ptx: str, line: int) -> str:
    above = "\n".join(ptx.splitlines()[:line])
    names = dict(_FILE.findall(ptx))
    places = _LOCATION.findall(above)
    return f", {names[places[-1][0]]}:{places[-1][1]}" if places and places[-1][0] in names else ""


@functools.lru_cache
def ptxas() -> str:
    """Return the path of ptxas: on the path, of the CUDA toolkit, or of Triton's wheel; empty where there is none."""
    home = Settings.from_environment().cuda_home
    spec = importlib.util.find_spec("triton")
    wheel = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "ptxas" if spec and spec.origin else ""
    names = ["ptxas", str(home / "bin" / "ptxas") if home else "", str(wheel)]
    return next((path for name in names if name and (path := shutil.which(name))), "")


def _read(tool: str, virtual: str, ptx: str) -> str:
    with tempfile.TemporaryDirectory(prefix="kernelwright-ptxas-") as name:
        (Path(name) / "kernel.ptx").write_text(ptx)
        words = [tool, "-c", f"-arch={virtual}", "kernel.ptx", "-o", "kernel.cubin"]
        done = run_tool(words, deadline_s=_READ_S, folder=Path(name), closed=True)
    if done.returncode == 0 and not done.timed_out:
        return ""
    found = _SAID.search(done.output)
    if done.timed_out:
        return f"not checked by ptxas: no answer within {_READ_S:g} s"
    if found is None or not found[1] or _UNKNOWN.search(done.output):
        why = found[2].strip() if found else f"it ended with code {done.returncode}"
        return f"not checked by ptxas: {why}"
    return f"ptxas refuses this PTX at line {found[1]}: {found[2].strip()}"


@functools.lru_cache
def _version(tool: str) -> str:
    return run_tool([tool, "--version"], deadline_s=20).output
