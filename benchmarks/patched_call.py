"""What a patched call costs over the kernel itself: the check, and torch's own call of a module.

    python -m benchmarks.patched_call [--kernel nothing|program|training] [--rounds 300] [--out rows.jsonl]

`examples/small_transformer.py`, of 39 weights, at sizes so small that a call takes microseconds: by the schedule
engine's first program for it, by a kernel that does nothing, which leaves the cost of the call alone, and by a training
step that does nothing but to enter its results into torch's graph of gradients. Timed in turn, a hundred calls each, on
one thread: the kernel with its packed weights, the patched model with the compiled check and with Python's, and a
module that does nothing. Each row has the least microseconds of a call over the rounds.
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.languages.prepared import Prepared
from kernelwright.models import Loaded, Patch, TrainingPatch, load_model
from kernelwright.models._snapshot import Snapshots, snapshots
from kernelwright.records import Task, TensorSpec
from kernelwright.tasks import Problem
from kernelwright.tasks.forms import kernelbench

_EXAMPLE = Path(__file__).parents[1] / "examples" / "small_transformer.py"
_SIZES, _SMALL = "= 4, 256, 4, 688, 1024, 64", "= 4, 32, 2, 64, 64, 2"
_CALLS = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Time the calls, and print and keep a row for each kernel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kernel", choices=("nothing", "program", "training"), help="by default all")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _EXAMPLE.name
        path.write_text(_EXAMPLE.read_text().replace(_SIZES, _SMALL))
        loaded, again = load_model(path), load_model(path)
        assert loaded.text is not None
        task = kernelbench.load(loaded.origin, loaded.text, max_elements=None, contract=None)
        for name in (asked.kernel,) if asked.kernel else ("nothing", "program", "training"):
            row = {"kernel": name, "weights": len(task.workloads[0].state)}
            if name == "training":
                row |= timed_training(task, loaded, again, asked.rounds)
            else:
                run = idle(loaded) if name == "nothing" else first_program(task)
                with torch.no_grad():
                    row |= timed(run, task, loaded, again, asked.rounds)
            print(json.dumps(row), flush=True)
            if asked.out is not None:
                with asked.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    return 0


def first_program(task: Task) -> Prepared:
    """Return the first program of the policy that takes packed weights, built with its defaults."""
    language, workload = get_language("cpp"), task.workloads[0]
    for schedule in itertools.islice(schedules(Problem(task), ("cpp",)), 3):
        candidate = schedule.render(schedule.default())
        build = language.build(candidate)
        kernel = language.load(candidate, Path(build.artefact or "."), workload.outputs)
        declared = getattr(kernel, "__globals__", {}).get("prepare")
        if declared is not None:
            return Prepared(kernel, declared, tuple(spec.name for spec in workload.state))
    raise SystemExit("no program of the policy packs its weights")


def idle(loaded: Loaded) -> Prepared:
    """Return a kernel that does nothing: its result was made ahead."""
    with torch.no_grad():
        result = loaded.module(*loaded.args)
    names = tuple(loaded.module.state_dict())
    return Prepared(lambda x, packed: packed, lambda weights: result, names)  # noqa: ARG005  the name is the protocol


def timed(kernel: Prepared, task: Task, loaded: Loaded, again: Loaded, rounds: int) -> dict[str, float]:
    """Return the least microseconds of each kind of call, and what the patch adds to the kernel's."""
    args = loaded.args
    names, specs, made = _given(task)
    other = Prepared(kernel._kernel, kernel._prepare, kernel.names)
    compiled = Patch(loaded.module, kernel, names, specs, loaded.whole.call, snapshots=made)
    python = Patch(again.module, other, names, specs, loaded.whole.call)
    with compiled, python:
        for module in (loaded.module, again.module) * 3:
            module(*args)
        run, packed, _ = kernel.packed()
        empty = nn.Identity()
        calls: dict[str, Callable[[], Any]] = {
            "kernel_us": lambda: run(*args, packed), "patched_us": lambda: loaded.module(*args),
            "python_us": lambda: again.module(*args), "module_us": lambda: empty(*args),
        }  # fmt: skip
        return _added(calls, rounds, (compiled, python))


def timed_training(task: Task, loaded: Loaded, again: Loaded, rounds: int) -> dict[str, float]:
    """Return the same of a training step."""
    args, (names, specs, made) = loaded.args, _given(task)
    weights = [dict(loaded.module.named_parameters())[name] for name in names]
    results = (torch.zeros(()), *(torch.zeros_like(w) for w in weights))
    patches = [
        TrainingPatch(
            one.module.train(), lambda *_: results, names, specs, one.whole.call, None, check, trained=names
        )
        for one, check in ((loaded, made), (again, None))
    ]
    with patches[0], patches[1]:
        for one in (loaded, again) * 3:
            one.module(*args)
        empty, step = nn.Identity(), patches[0]._called(len(args))
        calls: dict[str, Callable[[], Any]] = {
            "kernel_us": lambda: step(*args, *weights),
            "patched_us": lambda: loaded.module(*args), "python_us": lambda: again.module(*args),
            "module_us": lambda: empty(*args),
        }  # fmt: skip
        return _added(calls, rounds, patches)


def _given(task: Task) -> tuple[list[str], list[TensorSpec], Snapshots]:
    """Return the names of the weights, what the inputs are, and the compiled check."""
    workload, made = task.workloads[0], snapshots()
    if made is None:
        raise SystemExit("the compiled check cannot be built here")
    specs = [spec for spec in workload.arguments if isinstance(spec, TensorSpec)]
    return [spec.name.removeprefix("inner.") for spec in workload.state], specs, made


def _added(calls: dict[str, Callable[[], Any]], rounds: int, patches: Sequence[Patch]) -> dict[str, float]:
    """Time calls, all of which patches must serve, and return what patches add to the kernel's."""
    before = sum(patch.calls for patch in patches)
    assert before == 2 * len(patches)
    found = least(calls, rounds)
    assert sum(patch.calls for patch in patches) - before == len(patches) * _CALLS * rounds, (
        "every call was served"
    )
    added = {
        "added_us": found["patched_us"] - found["kernel_us"],
        "added_python_us": found["python_us"] - found["kernel_us"],
    }
    return {name: round(value, 2) for name, value in (found | added).items()}


def least(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least microseconds of a call of each kind, by the processor time of this thread."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.thread_time()
            for _ in range(_CALLS):
                call()
            found[name] = min(found[name], (time.thread_time() - begun) / _CALLS * 1e6)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
