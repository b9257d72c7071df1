"""Static evidence from a compiled object: vector width, spills, code size. Reads, never runs it.

Covers: x86-64, if objdump is installed; elsewhere there is no evidence
(the names are missing, never zero).
Does not cover: which instructions are in the hot loop.
"""

import re
import shutil
from pathlib import Path

from ..records import Scalar
from ._process import run_tool

_OBJDUMP_DEADLINE_S = 10.0
_DISASSEMBLY_LIMIT = 32_000_000
_INSTRUCTION = re.compile(r"^\s+[0-9a-f]+:\t(\S+)(?:\s+(.*))?$", re.MULTILINE)
_PACKED_SUFFIXES = (
    "ps",
    "pd",
    "dqu",
    "dqa",
    "dqu8",
    "dqu16",
    "dqu32",
    "dqu64",
    "dqa32",
    "dqa64",
    "ph",
    "bf16",
)
_SLOT = r"(-?(?:0x[0-9a-f]+)?\(%r[sb]p\))"
_STORE = re.compile(r"%[xyz]mm\d+,\s*" + _SLOT + "$")
_RELOAD = re.compile(_SLOT + r",\s*%[xyz]mm")
_FUNCTION = re.compile(r"^[0-9a-f]+ <.*>:$", re.MULTILINE)


def object_evidence(library: Path) -> dict[str, Scalar]:
    """Return `vector_width_bits`, `zmm`, `ymm`, `xmm_packed`, `fma`, `spills` and `text_bytes`.

    `spills` counts vector registers stored to a stack slot that the same function reloads. Empty if
    objdump is not installed, fails, or the machine is not x86-64.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        return {}
    command = [objdump, "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
    done = run_tool(command, deadline_s=_OBJDUMP_DEADLINE_S, limit=_DISASSEMBLY_LIMIT)
    if done.returncode != 0 or "x86-64" not in done.output[:500]:
        return {}
    return {**count_instructions(done.output), **_text_bytes(objdump, library)}


def count_instructions(disassembly: str) -> dict[str, Scalar]:
    """Count vector instructions in objdump's AT&T disassembly.

    Example:
        >>> counts = count_instructions("  1:\\tvmovaps %zmm0,(%rsp)\\n  8:\\tvaddss %xmm0,%xmm1,%xmm2\\n")
        >>> counts["vector_width_bits"], counts["spills"], counts["xmm_packed"]
        (512, 0, 0)
    """
    zmm = ymm = xmm = fma = 0
    for mnemonic, operands in _INSTRUCTION.findall(disassembly):
        if "mm" not in operands:
            continue
        zmm += "%zmm" in operands
        ymm += "%ymm" in operands and "%zmm" not in operands
        xmm += _packed_xmm(mnemonic, operands)
        fma += mnemonic.startswith("vfm")
    spills = sum(map(_spills, _FUNCTION.split(disassembly)))
    width = 512 if zmm else 256 if ymm else 128 if xmm else 0
    return {
        "vector_width_bits": width, "zmm": zmm, "ymm": ymm, "xmm_packed": xmm, "fma": fma, "spills": spills,
    }  # fmt: skip


def _spills(function: str) -> int:
    stored: list[str] = []
    reloaded: set[str] = set()
    for mnemonic, operands in _INSTRUCTION.findall(function):
        if mnemonic.startswith(("mov", "vmov")) and (store := _STORE.search(operands)):
            stored.append(store[1])
        elif reload := _RELOAD.search(operands):
            reloaded.add(reload[1])
    return sum(slot in reloaded for slot in stored)


def _packed_xmm(mnemonic: str, operands: str) -> bool:
    if "%xmm" not in operands or "%ymm" in operands or "%zmm" in operands:
        return False
    return mnemonic.endswith(_PACKED_SUFFIXES) or mnemonic.startswith(("vp", "padd", "pmul", "psub"))


def _text_bytes(objdump: str, library: Path) -> dict[str, Scalar]:
    done = run_tool([objdump, "-h", "-j", ".text", str(library)], deadline_s=_OBJDUMP_DEADLINE_S)
    found = re.search(r"\.text\s+([0-9a-f]{8,16})\s", done.output)
    return {"text_bytes": int(found[1], 16)} if found else {}
