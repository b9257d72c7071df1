"""What a call of each public function costs over the kernels that it runs, at sizes so small that little else is left.

    python -m benchmarks.ops.overhead [--only norms] [--rounds 200] [--out rows.jsonl]

The calls are the legal ones of `tests/ops/wrong/legal.py`. Timed in turn, on one thread: the kernels alone, by their
compiled symbols on outputs that exist; the public function; and the same where no call is remembered, so that each is
checked. Each row has the least microseconds of a call over the rounds, by the processor time of the thread. Functions
that run no kernel are left out.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from tests.ops.wrong.legal import LEGAL

from kernelwright import ops
from kernelwright.ops._core import unremembered
from kernelwright.ops._core.kernel import Entry, Kernel

_CALLS = 50
_GOAL_US = 3.0
Call = Callable[[], Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Time the calls, print a row for each and what share of them meets the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default="", help="a word in the function's name")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rows = []
    for family in ops.families():
        for number, (function, arguments) in enumerate(LEGAL[family]()):
            name = f"{family}.{function.__name__}"
            if asked.only not in name:
                continue
            row = timed(lambda f=function, a=arguments: f(**a), asked.rounds)
            if row is not None:
                rows.append({"function": name, "call": number, **row, "load": round(os.getloadavg()[0], 1)})
                print(json.dumps(rows[-1]), flush=True)
    if asked.out is not None:
        with asked.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    single = [row for row in rows if row["kernels"] == 1]
    met = sum(row["added_us"] <= _GOAL_US for row in single)
    print(f"of {len(single)} calls of one kernel {met} add {_GOAL_US:g} us or less")
    return 0


def timed(call: Call, rounds: int) -> dict[str, float] | None:
    """Return the least microseconds of a call and of its kernels; None if it runs none."""
    with recorded() as entries:
        ops.watch(call)
    if not entries:
        return None
    for _ in range(3):
        call()

    def kernels() -> None:
        for entry, arguments in entries:
            entry(*arguments)

    found = dict.fromkeys(("kernel_us", "call_us", "checked_us"), float("inf"))
    for _ in range(rounds):
        for name in found:
            with unremembered() if name == "checked_us" else nullcontext():
                taken = timed_once(kernels if name == "kernel_us" else call)
            found[name] = min(found[name], taken)
    added = {
        "added_us": found["call_us"] - found["kernel_us"],
        "added_checked_us": found["checked_us"] - found["kernel_us"],
    }
    return {"kernels": len(entries), **{name: round(value, 2) for name, value in (found | added).items()}}


def timed_once(call: Call) -> float:
    """Return the microseconds of a call, of some."""
    begun = time.thread_time()
    for _ in range(_CALLS):
        call()
    return (time.thread_time() - begun) / _CALLS * 1e6


@contextmanager
def recorded() -> Iterator[list[tuple[Entry, tuple[Any, ...]]]]:
    """Note which compiled symbols are called, and with what."""
    entries: list[tuple[Entry, tuple[Any, ...]]] = []
    plain = Kernel.function

    def function(kernel: Kernel, symbol: str, part: str = "") -> Entry | None:
        entry = plain(kernel, symbol, part)
        if entry is None:
            return None

        def noted(*arguments: Any) -> Any:
            entries.append((entry, arguments))
            return entry(*arguments)

        return noted

    forget()
    Kernel.function = function  # type: ignore[method-assign]  # every op asks it for its entry
    try:
        yield entries
    finally:
        Kernel.function = plain  # type: ignore[method-assign]  # as it was
        forget()


def forget() -> None:
    """Let every op look for its kernel again."""
    for op in every():
        op._entries.clear()


def every() -> list[ops.Op]:
    """Return the ops of all families."""
    return [op for name in ops.families() for op in ops.ops_of(ops.family(name))]


if __name__ == "__main__":
    raise SystemExit(main())
