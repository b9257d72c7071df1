"""`kernelwright execute`: a kernel's PTX, executed on the CPU, sanitised and counted."""

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ._common import Common, print_json, table
from ._smallest import Smallest, shrink

if TYPE_CHECKING:
    from ..executor import Execution
    from ..records import ModelledTime

_TENSOR = re.compile(r"(?:(out|zeros):)?(\w+)\[(\d+(?:,\d+)*)\]")
_SHOWN = 8
_DEVICES = {"sm_80": "a100-sxm-80", "sm_86": "rtx-3090", "sm_89": "l40s", "sm_90": "h100-sxm"}
"""The device that a time is modelled for, by target."""


def execute(
    kernel: str,
    *arguments: str,
    grid: str = "1",
    block: str = "32",
    shared: int = 0,
    at: str = "",
    target: str = "sm_90",
    seed: int = 0,
    cluster: str = "",
    whole: bool = False,
    device: str = "",
    common: Common | None = None,
) -> int:
    """Execute a kernel over a grid and show its results, what was found, and what was counted. No GPU is needed.

    Nothing is timed: what is executed on a CPU says nothing about a GPU's time. What is modelled is an interval, from
    what was counted and the device's published numbers.

    Args:
        kernel: A file `.ptx`, or `.cu` where nvcc is here; `FILE:NAME` names one of several kernels.
        arguments: For each parameter a number, `float32[1000]` for random values, `zeros:int32[64]`, or
            `out:float32[1000]` for an output that holds nothing yet.
        grid: Blocks: `8`, or `8,4,2`.
        block: Threads of a block.
        shared: Bytes of dynamic shared memory.
        at: `BLOCK,THREAD`, by number: show each step of that thread with its registers.
        target: What nvcc compiles for.
        seed: Of random values; another one than 0 also gives another order of blocks, warps and atomics.
        cluster: Blocks of a cluster: `2`, or `2,1,1`; none by default.
        whole: Do not look for the smallest grid and arguments that still fail.
        device: What to model a time for: `h100-sxm`, `a100-sxm-80` ...; by default the one that the target names.
        common: Flags of every command.
    """
    from ..executor import Module, Options

    common = common or Common()
    traced = _numbers(at, "at", 2) if at else None
    ptx = _ptx(kernel, target)
    module = Module.load(ptx, traced=traced is not None)
    chosen = module[_name(kernel, list(module))]
    given = _arguments(arguments, seed)
    options = Options(seed=seed, trace=(traced[0], traced[1]) if traced else None)
    dims, threads = _numbers(grid, "grid"), _numbers(block, "block")
    together = _numbers(cluster, "cluster") if cluster else None
    if traced and (traced[0] >= math.prod(dims) or traced[1] >= math.prod(threads)):
        raise InputError(
            f"--at is {at!r}; there are {math.prod(dims)} blocks of {math.prod(threads)} threads, from 0"
        )
    how: dict[str, Any] = {"shared_bytes": shared, "cluster": together}
    run = chosen(dims, threads, given, options=options, **how)
    show = _print_json if common.json else _print
    show(run, [getattr(a, "array", a) for a in given], _modelled(run, ptx, module.target, device))
    if run.ok:
        return 0
    if not whole and not traced:
        again = Options(seed=seed, deadline_s=max(1.0, 4 * run.time_s))
        less = shrink(kernel, dims, threads, arguments, run,
                      lambda g, b, words: chosen(g, b, _arguments(words, seed), options=again, **how))  # fmt: skip
        if less is not None:
            flags = {"shared": shared, "seed": seed, "cluster": cluster, "target": target}
            plain = {"shared": 0, "seed": 0, "cluster": "", "target": "sm_90"}
            _print_smallest(less, [f"--{n} {v}" for n, v in flags.items() if v != plain[n]], common)
    return 1


def _modelled(run: "Execution", ptx: str, target: str, device: str) -> "ModelledTime | None":
    """Model a time for the named device, or for one of the target's, where nothing was wrong."""
    from ..devices.specs import specs
    from ..executor.modelled import modelled, registers_of

    if device and device not in specs():
        raise InputError(f"--device is {device!r}; expected one of {', '.join(specs())}")
    name = device or _DEVICES.get(target.rstrip("a"), "")
    if not run.ok or not name or not (device or run.counters.memory):
        return None
    try:
        return modelled(run.counters, specs()[name], registers=registers_of(ptx, target, run.kernel))
    except InputError:
        if device:
            raise
        return None


def _print_smallest(less: Smallest, flags: list[str], common: Common) -> None:
    said = str(next(iter(less.run.findings), less.run.status))
    command = " ".join([less.command, *flags])
    if common.json:
        print_json("smallest", command=command, finding=said, tries=less.tries)
    else:
        print(f"the smallest found that still fails ({less.tries} tried): {command}\n{said}")


def _split(kernel: str) -> tuple[Path, str]:
    path, _, name = kernel.rpartition(":")
    return (Path(path), name) if path and name.isidentifier() else (Path(kernel), "")


def _ptx(kernel: str, target: str) -> str:
    from ..executor.cuda import compile_cuda

    path, _ = _split(kernel)
    if path.suffix not in {".ptx", ".cu"}:
        raise InputError(f"{kernel!r} is no .ptx and no .cu file; expected FILE or FILE:NAME")
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{str(path)!r} is no text; expected PTX or CUDA C++") from None
    return text if path.suffix == ".ptx" else compile_cuda(text, target=target)


def _name(kernel: str, names: list[str]) -> str:
    _, name = _split(kernel)
    if name or len(names) == 1:
        return name or names[0]
    if not names:
        raise InputError(
            f"{kernel!r} holds no kernel: PTX has none without an `.entry`, CUDA C++ without `__global__`"
        )
    raise InputError(f"{kernel!r} holds {len(names)} kernels: {', '.join(names)}; name one as FILE:NAME")


def _numbers(text: str, what: str, count: int = 0) -> list[int]:
    parts = text.split(",")
    if not all(p.strip().isdigit() for p in parts) or (count and len(parts) != count):
        expected = "BLOCK,THREAD" if count else "one to three numbers such as 8,4"
        raise InputError(f"--{what} is {text!r}; expected {expected}")
    return [int(p) for p in parts]


def _arguments(words: tuple[str, ...], seed: int) -> list[Any]:
    import numpy as np

    from ..executor import Uninitialised

    random = np.random.default_rng(seed)
    given: list[Any] = []
    for word in words:
        found = _TENSOR.fullmatch(word)
        if found is None:
            given.append(_number(word))
            continue
        shape = tuple(map(int, found[3].split(",")))
        try:
            dtype = np.dtype(found[2])
        except TypeError:
            raise InputError(f"argument {word!r}: numpy has no type {found[2]!r}") from None
        if math.prod(shape) * dtype.itemsize > (most := _most_bytes()):
            raise InputError(
                f"argument {word!r} has more than {most} bytes, an eighth of this machine's memory"
            )
        if found[1]:
            made: Any = np.zeros(shape, dtype)
            given.append(Uninitialised(made) if found[1] == "out" else made)
        elif dtype.kind in "iu":
            given.append(random.integers(0, 100, shape).astype(dtype))
        else:
            given.append(random.standard_normal(shape).astype(dtype))
    return given


def _most_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


def _number(word: str) -> int | float:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    raise InputError(f"argument {word!r} is no number and no tensor such as float32[100] or out:float32[100]")


def _print(run: "Execution", given: list[Any], model: "ModelledTime | None") -> None:
    for step in run.trace:
        registers = ", ".join(f"{n} = {v}" for n, v in step.registers.items())
        print(f"PTX {step.line:4} {step.source or ''!s:20} {step.instruction:28} {registers}")
    print(run.printed, end="")
    found = [f"{len(run.findings)} finding{'s' * (len(run.findings) > 1)}"] if run.findings else []
    ended = ", ".join(([] if found and run.status == "ok" else [run.status]) + found)
    print(f"{run.kernel}: {ended}, {run.counters.warp_instructions} warp instructions, "
          f"{run.counters.active_lanes:.0%} of lanes active; executed, not timed")  # fmt: skip
    mix = ", ".join(f"{n} {name}" for name, n in list(run.counters.instructions.items())[:_SHOWN])
    more = len(run.counters.instructions) - _SHOWN
    print(f"instructions: {mix}{f', {more} more' if more > 0 else ''}")
    for kind, operations in run.counters.tensor.items():
        print(f"tensor cores: {operations} operations of {kind}")
    for number, value in enumerate(given):
        if hasattr(value, "shape"):
            first = ", ".join(f"{v:.6g}" for v in value.reshape(-1)[:_SHOWN].tolist())
            print(
                f"argument {number}: {value.dtype}{list(value.shape)} {first}{' ...' * (value.size > _SHOWN)}"
            )
    for line in (*map(str, run.findings), *run.notes, *([str(model)] if model else [])):
        print(line)
    rows = [
        {
            "PTX line": str(s.line), "source": str(s.source or ""), "instruction": s.instruction,
            "requests": str(s.requests), "bytes": str(s.bytes), "sectors or passes": str(s.units),
            "per request": f"{s.units_per_request:.2f}",
        }
        for s in run.counters.memory
    ]  # fmt: skip
    table(rows, empty="no access to memory was counted")


def _print_json(run: "Execution", given: list[Any], model: "ModelledTime | None") -> None:
    for step in run.trace:
        print_json(
            "step", line=step.line, source=str(step.source or ""), instruction=step.instruction,
            registers={n: v if math.isfinite(v) else str(v) for n, v in step.registers.items()},
        )  # fmt: skip
    for f in run.findings:
        print_json(
            "finding", kind=f.kind, message=f.message, line=f.line, source=str(f.source or ""), block=list(f.block),
            thread=f.thread, instruction=f.instruction, space=f.space, address=f.address, size=f.size, count=f.count,
            other_line=f.other_line, other_source=str(f.other_source or ""), other_block=f.other_block,
            other_thread=f.other_thread,
        )  # fmt: skip
    print_json(
        "result", kernel=run.kernel, status=run.status, ok=run.ok, notes=list(run.notes), printed=run.printed,
        arguments=[v.reshape(-1)[:_SHOWN].tolist() if hasattr(v, "shape") else v for v in given],
        warp_instructions=run.counters.warp_instructions, active_lanes=run.counters.active_lanes,
        instructions=dict(run.counters.instructions), tensor=dict(run.counters.tensor),
        touched_bytes=run.counters.touched_bytes,
        memory=[
            {"line": s.line, "source": str(s.source or ""), "instruction": s.instruction, "requests": s.requests,
             "lanes": s.lanes, "bytes": s.bytes, "units": s.units}
            for s in run.counters.memory
        ],
        modelled=model.model_dump(mode="json") if model else None,
    )  # fmt: skip
