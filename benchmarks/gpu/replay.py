"""The worker of `benchmarks.gpu.executor`: does its share of the launches again and prints a row for each."""

import argparse
import base64
import json
import platform
import sys
import traceback
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .launches import Recorded, labels, read, values

DEVICES = ("cuda", "executor")
LOST = 3
"""The exit code of a worker whose context may be lost, after it has said so of the launch."""
_MOST_KEPT = 1 << 16
"""Bytes of a region that differs that are kept whole."""
_NAN = {"f16": (0x7FFF, 0x7C00), "bf16": (0x7FFF, 0x7F80), "32": (0x7FFFFFFF, 0x7F800000),
        "64": ((1 << 63) - 1, 0x7FF << 52)}  # fmt: skip
"""Bits without the sign, and infinity, of floating types."""
Run = Callable[[Recorded], Sequence[bytes]]


def environment(device: str) -> dict[str, str]:
    """Say with what the rows are made."""
    if device == "cuda":
        from .about import environment as about

        return about("benchmarks.gpu.executor")
    return {"command": " ".join(sys.argv), "device": "the PTX executor", "python": platform.python_version()}


def on(device: str, *, fresh: bool = False) -> Run:
    """Return what launches on a device and gives each region's bytes back."""
    if device == "cuda":
        from .driver import Driver

        driver = Driver()

        def run(record: Recorded) -> Sequence[bytes]:
            placed = driver.place(record, copy_uninitialised=not fresh)
            try:
                driver.start(placed)
                driver.wait()
                return driver.results(placed)
            finally:
                driver.free(placed)

        return run
    return executed


def executed(record: Recorded) -> Sequence[bytes]:
    """Execute a launch again."""
    from kernelwright.executor import Module, Options
    from kernelwright.executor._memory import Span

    arrays = [np.frombuffer(r.before, np.uint8).copy() for r in record.regions]
    spans = [
        Span(r.name, a.ctypes.data, r.size, True, r.initialised)
        for r, a in zip(record.regions, arrays, strict=True)
    ]
    raw = np.frombuffer(record.parameters, np.uint8).copy()
    words = raw[: raw.size // 8 * 8].view(np.uint64)
    for r, a in zip(record.regions, arrays, strict=True):
        inside = (words >= r.address) & (words < r.address + max(r.size, 1))
        words[inside] = words[inside] - np.uint64(r.address) + np.uint64(a.ctypes.data)
    kernel = Module.load(record.ptx)[record.kernel]
    kernel.execute(record.grid, record.block, spans, raw.tobytes(), shared_bytes=record.shared_bytes,
                   cluster=record.cluster, options=Options(races=False, count=False, check=False))  # fmt: skip
    return [a.tobytes() for a in arrays]


def hidden_nan(texts: str, width: int, a: Any, b: Any) -> Any:
    """Tell where both are NaN of a floating type of that width, by what the instruction names."""
    most, infinite = _NAN[str(width) if width != 16 else "bf16" if "bf16" in texts else "f16"]
    return ((a & np.uint64(most)) > infinite) & ((b & np.uint64(most)) > infinite)


def instructions(record: Recorded, all_got: Sequence[bytes]) -> dict[str, Any]:
    """Compare the results of many instructions, one by one."""
    note, lanes = record.note, record.note["lanes"]
    places = {r.name: n for n, r in enumerate(record.regions)}
    result = places["argument 1"]
    a = np.frombuffer(record.regions[result].after, np.uint64).reshape(-1, lanes)
    b = np.frombuffer(all_got[result], np.uint64).reshape(-1, lanes)
    given = np.frombuffer(record.regions[places["argument 0"]].before, np.uint64).reshape(len(a), 3, lanes)
    wrong = []
    for n, (text, widths) in enumerate(zip(note["texts"], note["widths"], strict=True)):
        differ = a[n] != b[n]
        if differ.any():
            nan = differ & hidden_nan(text, widths[0], a[n], b[n])
            at = np.flatnonzero(differ & ~nan)
            # of (operands, executor, device)
            shown = [[[hex(x) for x in given[n, : len(widths) - 1, k]], hex(a[n, k]), hex(b[n, k])]
                     for k in [*at[:6], *np.flatnonzero(nan)[:1]]]  # fmt: skip
            wrong.append({"text": text, "lanes": int(differ.sum()), "nan": int(nan.sum()), "shown": shown})
    return {"instructions": len(a), "wrong": wrong}


def arrays(record: Recorded, got: Sequence[bytes]) -> list[dict[str, Any]]:
    """Say of each region that differs how much."""
    found = []
    for region, bytes_got in zip(record.regions, got, strict=True):
        if bytes_got == region.after:
            continue
        a, b = values(region.after, region.dtype), values(bytes_got, region.dtype)
        row: dict[str, Any] = {"name": region.name, "dtype": region.dtype, "elements": len(a)}
        row["differ"] = int((a != b).sum())
        if a.dtype.kind == "f":
            with np.errstate(all="ignore"):
                x, y = a.astype(np.float64), b.astype(np.float64)
                finite = np.isfinite(x) & np.isfinite(y)
                row["nan"] = int((np.isnan(x) & np.isnan(y)).sum())
                row["differ"] = int(((x != y) & ~(np.isnan(x) & np.isnan(y))).sum())
                row["most"] = float(np.abs(x - y)[finite].max(initial=0.0))
                row["unlike"] = int((np.isfinite(x) != np.isfinite(y)).sum())
                row["scale"] = float(np.abs(x)[finite].max(initial=0.0))
        if len(bytes_got) <= _MOST_KEPT:
            row["got"] = base64.b64encode(zlib.compress(bytes_got)).decode()
        found.append(row)
    return found


def right(record: Recorded, got: Sequence[bytes], regions: Sequence[dict[str, Any]]) -> bool | None:
    """Tell whether the device's results are right by themselves; None where nothing but the executor says what is."""
    if "family" in record.note and not record.note["fault"]:
        return _family_right(record, got)
    if "outputs" in record.note:
        off = {r["name"]: float("inf") if r["unlike"] else r["most"] for r in regions if "most" in r}
        outputs = record.note["outputs"].items()
        return all(
            (off.get(name, 0.0) + error) / scale <= record.note["allowed"] for name, (error, scale) in outputs
        )
    return None


def _family_right(record: Recorded, got: Sequence[bytes]) -> bool:
    """Put the device's results where the family's own check looks for them."""
    from kernelwright.executor import TensorMap, Uninitialised

    from ..executor_kernels import FAMILIES
    from ..executor_kernels.family import TYPES

    family, size = FAMILIES[record.note["family"]], record.note["size"]
    _, arguments, _, check = family.launch(np.random.default_rng(size), TYPES[record.note["kind"]], size)
    for number, value in enumerate(arguments):
        array = value.array if isinstance(value, Uninitialised | TensorMap) else value
        for region, content in zip(record.regions, got, strict=True):
            if region.name == f"argument {number}" and isinstance(array, np.ndarray):
                array[...] = np.frombuffer(content, array.dtype).reshape(array.shape)
    return bool(check())


def row_of(record: Recorded, run: Run) -> dict[str, Any]:
    """Launch and compare."""
    row: dict[str, Any] = {"label": record.label, "kernel": record.kernel}
    got = run(record)
    same = all(r.after == g for r, g in zip(record.regions, got, strict=True))
    row["state"] = "equal" if same else "differs"
    if record.findings or record.status != "ok":
        row["findings"], row["status"] = record.findings, record.status
    if record.note.get("depends on order"):
        row["depends on order"] = True
    if "texts" in record.note:
        return row | instructions(record, got)
    if not same:
        row["regions"] = arrays(record, got)
    verdict = right(record, got, row.get("regions", ()))
    return row if verdict is None else row | {"right": verdict}


def main() -> int:
    """Do a part of the launches again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--device", choices=DEVICES, default="cuda")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--faulty", action="store_true", help="the launches in which something was found")
    parser.add_argument(
        "--fresh", action="store_true", help="leave memory that the kernel is to write unwritten"
    )
    words = parser.parse_args()
    number, of = map(int, words.part.split("/"))
    mine = labels(words.cases, words.only, faulty=words.faulty)[number::of]
    run = on(words.device, fresh=words.fresh)
    for at in range(words.first, len(mine)):
        path, index, name = mine[at]
        print(json.dumps({"begun": at, "label": name}), flush=True)
        try:
            row = row_of(read(path, index), run)
        except Exception as error:  # noqa: BLE001  (whatever goes wrong belongs to this launch)
            row = {"label": name, "state": "failed", "why": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(row), flush=True)
            if type(error).__name__ == "DriverError":
                return LOST
            traceback.print_exc()
            continue
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
