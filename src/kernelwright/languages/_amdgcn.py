"""AMD GPU assembly → facts: registers, spills, local memory, waves on a SIMD, and what kinds of instructions there are.

Source: LLVM, "User Guide for AMDGPU Backend": code object metadata, and occupancy by vector registers of gfx90a and
later (512 of them on a SIMD, given out by eights; at most 8 waves).
"""

import re
from typing import Final

_KERNEL = re.compile(r"^  - \.(?:agpr_count|args)", re.MULTILINE)
_NUMBER = re.compile(r"\.(\w+):\s+(\d+)\s*$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\t[a-z]\w*_\w+", re.MULTILINE)
_MIX: Final = {
    "tensor_instructions": re.compile(r"\bv_s?mfma\w*"),
    "global_loads": re.compile(r"\b(?:global_load|buffer_load)\w*"),
    "shared_accesses": re.compile(r"\bds_(?:read|write|load|store)\w*"),
    "spill_instructions": re.compile(r"\bscratch_(?:store|load)\w*"),
}
_LDS_BYTES: Final = {"gfx950": 160 << 10}
_REGISTERS, _GRANULE, _MOST_WAVES, _SIMDS = 512, 8, 8, 4


def amd_facts(text: str, target: str, asked_bytes: int = 0) -> dict[str, int]:
    """Return the worst over the kernels of an assembly file, and sums over all instructions.

    `registers` are vector registers, accumulation registers (`accumulators`) among them. `waves` is how many waves fit
    on a SIMD.

    Args:
        text: Assembly, with its metadata.
        target: The GPU.
        asked_bytes: Local memory that a launch asks for, which the assembly does not say.
    """
    metadata = text.partition("amdhsa.kernels:")[2]
    kernels = [dict(_numbers(part)) for part in _KERNEL.split(metadata)[1:]]
    facts = {
        "kernels": len(kernels),
        "registers": max((k["vgpr_count"] for k in kernels), default=0),
        "accumulators": max((k.get("agpr_count", 0) for k in kernels), default=0),
        "scalar_registers": max((k["sgpr_count"] for k in kernels), default=0),
        "spill_bytes": sum(4 * k.get("vgpr_spill_count", 0) for k in kernels),
        "scratch_bytes": max((k.get("private_segment_fixed_size", 0) for k in kernels), default=0),
        "shared_bytes": max((k.get("group_segment_fixed_size", 0) for k in kernels), default=0),
        "waves": min((_waves(k, target, asked_bytes) for k in kernels), default=0),
    }
    mix = {name: len(pattern.findall(text)) for name, pattern in _MIX.items()}
    return facts | {"instructions": len(_INSTRUCTION.findall(text))} | mix


def _numbers(text: str) -> list[tuple[str, int]]:
    return [(name, int(value)) for name, value in _NUMBER.findall(text)]


def _waves(kernel: dict[str, int], target: str, asked_bytes: int) -> int:
    given = -(-max(kernel["vgpr_count"], 1) // _GRANULE) * _GRANULE
    waves = min(_MOST_WAVES, _REGISTERS // given)
    shared = kernel.get("group_segment_fixed_size", 0) + asked_bytes
    if shared:
        of_block = -(-kernel.get("max_flat_workgroup_size", 1024) // 64)
        waves = min(waves, _LDS_BYTES.get(target, 64 << 10) // shared * of_block // _SIMDS)
    return max(waves, 1)
