"""CUDA C++ for GPUs that need not be here: which a source is compiled for, and what their machine code says of it.

Covers: registers, shared memory, spills and what they leave of a multiprocessor, by ptxas; tensor instructions, copies
and loads by the disassembler of Triton's wheel, where that is installed (elsewhere the names are missing, never zero).
Does not cover: which instructions are in the hot loop; the occupancy of a launch.
"""

import functools
import importlib.util
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..records import Candidate, Scalar
from ._occupancy import core_of, most_warps
from ._process import run_tool
from ._triton_compile import count_instructions

_FEATURES: Final = {"sm_90": re.compile(r"\bwgmma\b|\bsetmaxnreg\b"), "sm_100": re.compile(r"\btcgen05\b")}
"""What a source must name to be compiled for the variant of a GPU (`sm_90a`) that alone has it."""
_ASKED: Final = re.compile(r"^//\s*targets:(.*)$", re.MULTILINE)
_TARGET: Final = re.compile(r"sm_\d{2,3}")
_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)' for '(sm_\d+)a?'")
_SPILLS: Final = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_DISASSEMBLY_S: Final = 30.0
_LIMIT: Final = 32_000_000
_SECTION: Final = re.compile(r"^\s*code for (sm_\d+)a?$", re.MULTILINE)


@functools.lru_cache
def targets_here() -> tuple[str, ...]:
    """Return `sm_90` and this machine's GPUs, from the driver without initialising CUDA."""
    here: list[str] = []
    if smi := shutil.which("nvidia-smi"):
        asked = run_tool([smi, "--query-gpu=compute_cap", "--format=csv,noheader"], deadline_s=20)
        if asked.returncode == 0:
            here = [f"sm_{line.replace('.', '')}" for line in asked.output.split()]
    return tuple(sorted({"sm_90", *here}))


def targets_asked(candidate: Candidate) -> tuple[str, ...]:
    """Return the targets that lines `// targets: sm_80, sm_120` name, beyond those of every build."""
    lines = [line for source in candidate.sources for line in _ASKED.findall(source.text)]
    named = dict.fromkeys(name for line in lines for name in _TARGET.findall(line))
    return tuple(name for name in named if name not in targets_here())


def architecture(target: str, candidate: Candidate) -> str:
    """Return what nvcc is told of a target: the variant with a GPU's own features where a source names one of them."""
    needs = _FEATURES.get(target)
    wanted = needs is not None and any(needs.search(source.text) for source in candidate.sources)
    return target + "a" if wanted else target


def ptxas_evidence(text: str) -> dict[str, Scalar]:
    """Parse `ptxas -v`: by target the most registers and shared bytes, all spill bytes, and the kernels.

    `resident_warps` are those that a multiprocessor holds of the kernel that fills it least, at the threads that suit
    that kernel best: dynamic shared memory and the launch can only make it fewer.

    Example:
        >>> ptxas_evidence(
        ...     "ptxas info    : Compiling entry function 'f' for 'sm_90a'\\n"
        ...     "    0 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\\n"
        ...     "ptxas info    : Used 16 registers, used 1 barriers, 512 bytes smem\\n")["sm_90.spill_bytes"]
        12
    """
    facts: dict[str, int] = {}
    target = ""
    for line in text.splitlines():
        if entry := _ENTRY.search(line):
            target = entry[2]
            facts[f"{target}.kernels"] = facts.get(f"{target}.kernels", 0) + 1
        if target and (spills := _SPILLS.search(line)):
            name = f"{target}.spill_bytes"
            facts[name] = facts.get(name, 0) + int(spills[1]) + int(spills[2])
        if target and (used := _USED.search(line)):
            for name, value in (("registers", used[1]), ("shared_bytes", used[2] or "0")):
                facts[f"{target}.{name}"] = max(facts.get(f"{target}.{name}", 0), int(value))
            if core := core_of(target):
                fit = most_warps(core, registers=int(used[1]), shared_bytes=int(used[2] or 0))
                facts[f"{target}.resident_warps"] = min(facts.get(f"{target}.resident_warps", fit), fit)
    return dict(facts)


def machine_code(file: Path) -> dict[str, int]:
    """Count instructions of a library or cubin by target; nothing where there is no disassembler."""
    tool = _disassembler()
    if tool is None:
        return {}
    command: list[str | Path] = [tool, "-sass", file.name]
    done = run_tool(command, deadline_s=_DISASSEMBLY_S, folder=file.parent, limit=_LIMIT, closed=True)
    pieces = _SECTION.split(done.output)
    facts: dict[str, int] = {}
    for target, text in zip(pieces[1::2], pieces[2::2], strict=True):
        for name, number in count_instructions(text).items():
            facts[f"{target}.{name}"] = facts.get(f"{target}.{name}", 0) + number
    return facts


def compiled_for(
    nvcc: str, candidate: Candidate, folder: Path, target: str, words: Sequence[str], deadline_s: float
) -> tuple[dict[str, Scalar], str]:
    """Compile a candidate's device code for one more target.

    Returns:
        What is known of it, and a finding where it does not compile.
    """
    facts: dict[str, int] = {}
    said = ""
    for number, source in enumerate(s.path for s in candidate.sources if s.path.endswith(".cu")):
        cubin = folder / f"{target}-{number}.cubin"
        command: list[str | Path] = [
            nvcc,
            "-cubin",
            f"-arch={architecture(target, candidate)}",
            "-Xptxas",
            "-v",
            *words,
            source,
            "-o",
            cubin,
        ]
        done = run_tool(command, deadline_s=deadline_s, folder=folder, closed=True)
        if done.timed_out or done.returncode != 0:
            why = next(
                (line for line in done.output.splitlines() if "error" in line or "fatal" in line), "no end"
            )
            return {}, f"{source} does not compile for {target}: {why.strip()}"
        said += done.output
        for name, value in machine_code(cubin).items():
            facts[name] = facts.get(name, 0) + value
    return {**facts, **ptxas_evidence(said)}, ""


@functools.lru_cache
def _disassembler() -> Path | None:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    tool = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return tool if tool.is_file() else None
