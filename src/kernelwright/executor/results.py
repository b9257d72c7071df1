"""What an execution gives back: findings, counters, how it ended."""

import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from . import _native
from ._ir import WIDTHS, Instruction, Source

KINDS: Final = {
    1: "out-of-bounds", 2: "misaligned", 3: "uninitialised", 4: "race", 5: "conflicting-writes",
    6: "barrier-divergence", 7: "deadlock", 8: "copy-not-waited", 9: "mask-lacks-lane", 10: "lanes-not-there",
    11: "read-only", 12: "copy-left", 13: "split-warp", 14: "block-ended", 15: "cluster-barrier",
    16: "proxy-fence-missing", 17: "bad-tensor-map", 18: "tensor-memory-left",
    19: "bad-metadata", 20: "non-coherent", 21: "barrier-count", 22: "shuffle-source",
}  # fmt: skip
_SPACES: Final = {0: "", 1: "global", 2: "shared", 3: "local", 4: "param", 6: "tensor"}
_STATUS: Final = {
    0: "ok", 1: "deadline", 2: "step-budget", 3: "trap", 4: "stack-overflow", 5: "local-memory-exhausted", 6: "refused",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One fault, at one pair of instructions; `count` says how often it was seen."""

    kind: str
    """One of the names in `KINDS`."""
    message: str
    """A sentence for people."""
    line: int
    """Line of the PTX."""
    source: Source | None
    """Line of the program that the PTX was made from, where the compiler kept it (`-lineinfo`)."""
    instruction: str
    block: tuple[int, int, int]
    thread: int
    """Number of the thread within its block."""
    address: int
    size: int
    space: str
    count: int
    other_line: int = 0
    """Line of the other access of a race."""
    other_source: Source | None = None
    other_thread: int = 0
    other_block: int = 0

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class SiteCounters:
    """What one memory instruction asked of memory."""

    line: int
    source: Source | None
    instruction: str
    requests: int
    """Warp-wide executions with a lane active."""
    lanes: int
    bytes: int
    units: int
    """Sectors of 32 bytes (global), or passes over the banks (shared)."""

    @property
    def units_per_request(self) -> float:
        """Return sectors or passes per request."""
        return self.units / self.requests if self.requests else 0.0


@dataclass(frozen=True)
class Counters:
    """What was executed."""

    instructions: dict[str, int] = field(default_factory=dict)
    """Warp-wide executions by instruction."""
    warp_instructions: int = 0
    lane_instructions: int = 0
    """The same, counted once for each active lane."""
    memory: tuple[SiteCounters, ...] = ()
    tensor: dict[str, int] = field(default_factory=dict)
    """Multiplications and additions of matrix instructions, by the PTX type of their first operand."""
    blocks: int = 0
    """Blocks of the grid."""
    threads: int = 0
    """Threads of each block."""
    shared_bytes: int = 0
    """Shared memory of each block."""
    touched_bytes: int = 0
    """Global memory that was read or written at all, in pieces of the smallest access; 0 where races were not looked
    for."""

    @property
    def active_lanes(self) -> float:
        """Return the share of lanes active over all instructions: 1.0 without divergence."""
        return self.lane_instructions / (32 * self.warp_instructions) if self.warp_instructions else 0.0

    @property
    def tensor_operations(self) -> int:
        """Return the multiplications and additions of matrix instructions of all types."""
        return sum(self.tensor.values())

    def total(self, space: str, field_name: str) -> int:
        """Sum `requests`, `lanes`, `bytes` or `units` over instructions of a space, `global` or `shared`."""
        return sum(getattr(s, field_name) for s in self.memory if _is_of(s.instruction, space))


@dataclass(frozen=True)
class Step:
    """One instruction of the traced thread."""

    line: int
    """Line of the PTX."""
    source: Source | None
    instruction: str
    registers: dict[str, int | float]
    """What it wrote, by register; of one that writes none, what it read. Floats of 32 and 64 bits are floats."""


@dataclass(frozen=True)
class Execution:
    """How a launch ended."""

    status: str
    """`ok`, or why the kernel was stopped."""
    findings: tuple[Finding, ...]
    counters: Counters
    steps: int
    """Warp-wide instructions executed."""
    time_s: float
    """Wall seconds on this host; says nothing about any GPU."""
    notes: tuple[str, ...] = ()
    kernel: str = ""
    """The entry's name in the PTX."""
    trace: tuple["Step", ...] = ()
    """What the traced thread did, step by step, where one was asked for."""
    printed: str = ""
    """What its `printf` wrote."""

    @property
    def ok(self) -> bool:
        """Tell whether the kernel ran to its end without a finding."""
        return self.status == "ok" and not self.findings


def _is_of(instruction: str, space: str) -> bool:
    words = instruction.split(".")
    if words[0] in {"ldmatrix", "stmatrix"}:
        return space == "shared"
    if words[0] == "cp":
        return space == "global"
    return any(w.split("::")[0] == space for w in words)


def finding_of(
    raw: _native.Finding, sites: Sequence[Instruction], describe: Callable[[int, int], str]
) -> Finding:
    """Turn what the engine noted into a finding with names and a sentence."""
    at = sites[raw.site] if raw.site < len(sites) else None
    other = sites[raw.other_site] if raw.other_site < len(sites) else None
    kind, space = KINDS.get(raw.kind, "unknown"), _SPACES.get(raw.space, "")
    block = (raw.block[0], raw.block[1], raw.block[2])
    place = f"at {_where(at)}: block {block}, thread {raw.thread}"
    what = _sentence(kind, space, raw, describe)
    message = f"{kind} {place}: {at.name if at else '?'} {what}"
    if other is not None:
        whose = f"thread {raw.other_thread}" + (
            f" of block number {raw.other_block}" if space == "global" else ""
        )
        message += f"; the other is {whose} {_where(other)} ({other.name})"
    return Finding(
        kind, message, at.line if at else 0, at.source if at else None, at.name if at else "", block, raw.thread,
        raw.address, raw.size, space, raw.count, other.line if other else 0, other.source if other else None,
        raw.other_thread, raw.other_block,
    )  # fmt: skip


def _where(at: Instruction | None) -> str:
    if at is None:
        return "an unknown place"
    return f"PTX line {at.line}" + (f", {at.source}" if at.source else "")


def _sentence(kind: str, space: str, raw: _native.Finding, describe: Callable[[int, int], str]) -> str:
    where = f"{raw.size} bytes of {space} memory at {raw.address:#x}"
    if space == "global":
        where += f", {describe(raw.address, raw.size)}"
    return {
        "out-of-bounds": f"touches {where}",
        "misaligned": f"touches {where}, which is no multiple of its size",
        "uninitialised": f"reads {where}, which nobody has written",
        "race": f"and another thread touch {where} without a barrier between them",
        "conflicting-writes": f"stores different values from several lanes to {where}",
        "barrier-divergence": "is reached by some lanes of a warp while others are elsewhere",
        "deadlock": "waits for threads that never come",
        "copy-not-waited": f"touches {where}, where an asynchronous copy, or wgmma, has not been waited for",
        "mask-lacks-lane": "is executed by a lane that its mask does not name",
        "lanes-not-there": "names lanes that never come to it",
        "read-only": f"writes {where}, which is constant",
        "block-ended": f"touches {where}, of a block of its cluster that has ended",
        "cluster-barrier": "arrives twice at its cluster's barrier, or waits there without having arrived",
        "proxy-fence-missing": f"reads {where} by the async proxy, without a fence.proxy.async after ordinary stores",
        "bad-tensor-map": "is given a map or matrix descriptor that does not fit: rank, type, box, swizzle, strides",
        "non-coherent": f"reads {where} through the read-only cache, which a thread of this launch has written",
        "barrier-count": "names another number of threads than those that came to this barrier before it",
        "shuffle-source": "takes the value of a lane that takes no part, and results depend on it",
        "bad-metadata": "is given metadata of a sparse matrix that name an element twice, out of order or not at all",
        "tensor-memory-left": "allocates tensor memory that the block has not given back when it ends",
        "copy-left": "is still under way when its thread ends",
    }.get(kind, where)


def trace_of(
    steps: Sequence[tuple[Instruction, str]], kinds: Mapping[str, str], noted: Sequence[int]
) -> tuple[Step, ...]:
    """Put the noted registers of each instruction together.

    Args:
        steps: What each number stands for.
        kinds: The PTX type of each register.
        noted: Pairs of number and value.
    """
    found: list[Step] = []
    last = -1
    for number, value in zip(noted[::2], noted[1::2], strict=True):
        at, register = steps[number]
        if not (found and number == last + 1 and steps[last][0] is at):
            found.append(Step(at.line, at.source, at.name, {}))
        last = number
        if register:
            found[-1].registers[register] = _value(value, kinds.get(register, ""))
    return tuple(found)


def _value(bits: int, kind: str) -> int | float:
    if kind == "f32":
        return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0])
    if kind == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    return bits


def counters_of(code: Sequence[Sequence[Instruction]], counts: Sequence[int], sites: Sequence[Instruction],
                site_counts: Sequence[_native.SiteCount], launch: _native.Launch) -> Counters:  # fmt: skip
    """Add up executions of basic blocks and the counts of memory instructions."""
    mix: Counter[str] = Counter()
    tensor: Counter[str] = Counter()
    warps = lanes = 0
    for n, block in enumerate(code):
        runs, active = counts[2 * n], counts[2 * n + 1]
        if not runs:
            continue
        for i in block:
            mix[i.name] += runs
            if _multiplies(i) and (operations := _operations(i)):
                tensor[_element_of(i)] += runs * operations
        warps += runs * len(block)
        lanes += active * len(block)
    counted = [(i, c) for i, c in zip(sites, site_counts, strict=True) if c.requests]
    for i, c in counted:
        if i.opcode == "tcgen05":  # its shape and types stand in a register: the engine counts its operations
            tensor[next(m for m in i.modifiers if m.startswith("kind::")).removeprefix("kind::")] += c.units
    memory = tuple(
        SiteCounters(i.line, i.source, i.name, c.requests, c.lanes, c.bytes, c.units)
        for i, c in counted
        if i.opcode != "tcgen05"
    )
    return Counters(
        dict(mix.most_common()), warps, lanes, memory, dict(tensor), math.prod(launch.grid), math.prod(launch.block),
        launch.shared_bytes, launch.touched_cells << launch.global_shift,
    )  # fmt: skip


def _multiplies(i: Instruction) -> bool:
    return i.opcode in {"mma", "wgmma"} or (i.opcode == "wmma" and i.modifiers[0] == "mma")


def _element_of(i: Instruction) -> str:
    """Return the type of a matrix instruction's first operand: types stand in the order of d, a, b, c.

    A `wmma` of halves names those of d and c alone.
    """
    kinds = [m for m in i.modifiers if m in WIDTHS or m in {"e4m3", "e5m2", "s4", "u4", "b1"}]
    if i.opcode == "wmma" and len(kinds) == 2:
        return "f16"
    return kinds[1] if len(kinds) > 1 else kinds[0] if kinds else ""


def _operations(i: Instruction) -> int:
    """Return what one warp does: all of an `mma`, a quarter of a `wgmma`, of which four warps share the product.

    Of a sparse matrix only the kept half is multiplied; `m8n8k4` of halves does four products at once.
    """
    shape = next((m for m in i.modifiers if m.startswith("m") and "n" in m and "k" in m), "m0n0k0")
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    whole = 2 * int(m) * int(n) * int(k) // (4 if i.opcode == "wgmma" else 1)
    if {"sp", "sp::ordered_metadata"} & {*i.modifiers}:
        return whole // 2
    return 4 * whole if shape == "m8n8k4" and "f64" not in i.modifiers else whole


def status_of(number: int) -> str:
    """Return the name of the engine's status."""
    return _STATUS.get(number, "unknown")
