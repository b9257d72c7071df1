"""Behaviour of a candidate: four dimensions, read from its source and its static evidence.

Covers: C++ with OpenMP and intrinsics, CUDA and HIP C++, OpenCL, WGSL, Triton, PyTorch.
Does not cover: what only a profiler shows. A class places a candidate in an archive and describes it in a prompt; it
is never a reason to accept or reject.
"""

import re
from dataclasses import dataclass, replace

from ...records import Evaluation

_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "memory": (
        ("staged", r"__shared__|__local\b|var<workgroup>|cp_async|\bstage[ds]?\b|make_block_ptr"),
        ("gathered", r"\w\[\s*\w*(?:ind(?:ex|ices)|idx|perm|order)\w*\s*\[|gather|tl\.load\([^)]*(?:ind|idx)"),
        ("vector", r"float4|float8|half2|vload\d|_mm\d*_|__m\d+|\bVec(?:tor)?\b|#pragma omp[^\n]*simd|tl\.arange"),
        ("plain", r""),
    ),
    "parallelism": (
        ("split", r"atomic|split_?k|reduction\(|tl\.atomic|cooperative"),
        ("tiled", r"blockIdx\.y|get_global_id\(1\)|program_id\((?:axis=)?1\)|collapse\(\d\)|global_id\.y"),
        ("flat", r"blockIdx|get_global_id|program_id|#pragma omp[^\n]*(?:parallel|for)|parallel_for|global_id"),
        ("serial", r""),
    ),
    "algorithm": (
        ("library", r"\btorch\.\w|\bat::|cublas|cudnn|mkl_|cblas_"),
        ("matrix", r"wmma|mma_?sync|mma\.|tl\.dot|_tile_dp|amx"),
        ("online", r"online|running|rescale|welford"),
        ("passes", r"(?s)(?:\bfor\b.*){4}"),
        ("direct", r""),
    ),
}  # fmt: skip
"""For each dimension, its classes and the patterns that match them, in order; the last class is the default."""

_SPILLS = re.compile(r"(?:^|\.)(?:spills|spill_bytes)$")
_REGISTERS = re.compile(r"(?:^|\.)registers$")
_SHARED = re.compile(r"(?:^|\.)shared_bytes$")
_MANY_REGISTERS, _MUCH_SHARED_BYTES = 128, 48 * 1024

DIMENSIONS: dict[str, tuple[str, ...]] = {
    **{name: tuple(label for label, _ in rules) for name, rules in _RULES.items()},
    "resources": ("light", "heavy", "spilled"),
}
"""Each dimension and its classes."""

_MEANING = {
    "staged": "stages tiles in shared or local memory",
    "gathered": "reads through an index",
    "vector": "loads and stores vectors",
    "plain": "reads and writes element by element",
    "split": "splits reductions over workers and joins them",
    "tiled": "works on tiles in two dimensions",
    "flat": "gives each worker a stretch of one dimension",
    "serial": "uses one worker",
    "library": "leaves the heavy work to a library",
    "matrix": "uses matrix units",
    "online": "keeps running results and corrects them, in one pass",
    "passes": "makes several passes",
    "direct": "makes one direct pass",
    "light": "keeps registers and shared memory low",
    "heavy": "spends many registers or much shared memory",
    "spilled": "lets registers spill",
}


@dataclass(frozen=True)
class Behaviour:
    """A cell: one class in each dimension.

    Example:
        >>> print(Behaviour("staged", "tiled", "matrix", "heavy"))
        staged, tiled, matrix, heavy
    """

    memory: str
    parallelism: str
    algorithm: str
    resources: str

    def with_(self, dimension: str, label: str) -> "Behaviour":
        """Return the neighbour that differs in one dimension."""
        return replace(self, **{dimension: label})

    def goal(self, other: "Behaviour") -> str:
        """Describe in words how to move here from another cell."""
        differing = [name for name in DIMENSIONS if getattr(self, name) != getattr(other, name)]
        return f"Try a kernel that {' and '.join(_MEANING[getattr(self, name)] for name in differing)}."

    def __str__(self) -> str:
        return ", ".join(getattr(self, name) for name in DIMENSIONS)


def behaviour_of(evaluation: Evaluation) -> Behaviour:
    """Classify a candidate."""
    text = "\n".join(s.text for s in evaluation.candidate.sources)
    classes = {
        name: next(label for label, pattern in rules if re.search(pattern, text))
        for name, rules in _RULES.items()
    }
    return Behaviour(**classes, resources=_resources(evaluation))


def _resources(evaluation: Evaluation) -> str:
    def most(pattern: re.Pattern[str]) -> float:
        found = [v for name, v in evaluation.build.evidence.items() if pattern.search(name)]
        return max((float(v) for v in found if isinstance(v, int | float)), default=0.0)

    if most(_SPILLS) > 0:
        return "spilled"
    heavy = most(_REGISTERS) > _MANY_REGISTERS or most(_SHARED) > _MUCH_SHARED_BYTES
    return "heavy" if heavy else "light"
