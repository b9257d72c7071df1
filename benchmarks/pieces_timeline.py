"""Where the time of one call goes in a model with kernels in its pieces: in its kernels, and around them.

    python -m benchmarks.pieces_timeline STORE [--rounds 80]

STORE is that of `python -m benchmarks.pieces --store STORE`, whether its model was accepted or not. Processor time of
one thread, all ways in turn: eager torch, torch.compile, torch.compile with max-autotune and freezing, the model with
kernels as it was judged, and its kernels alone one after the other.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from benchmarks.pieces import build
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.records import Candidate, Task
from kernelwright.store import Store
from kernelwright.tasks import one_thread

Call = Callable[[], Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Time one call of each way, and print a row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--rounds", type=int, default=80)
    asked = parser.parse_args(argv)
    with one_thread(), torch.no_grad():
        ways = _ways(asked.store)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked.rounds):
            for name, call in ways.items():
                begun = time.process_time()
                call()
                times[name].append(1e6 * (time.process_time() - begun))
    print(json.dumps({name: round(median(us[len(us) // 8 :])) for name, us in times.items()}))
    return 0


def _ways(store: Path) -> dict[str, Call]:
    model, (x,) = build()
    weights = dict(model.named_parameters())
    whole, names = _loaded(*_judged(store, "pieces_whole"))
    given = [weights[name.removeprefix("inner.")].detach() for name in names]
    region = _judged(store, "region_")
    steps = [(_loaded(*region)[0], [w.detach() for w in block.parameters()]) for block in _blocks(model)]
    compiled, frozen = torch.compile(copy.deepcopy(model)), torch.compile(copy.deepcopy(model))
    compiled(x)
    with torch._inductor.config.patch(freezing=True, max_autotune=True):
        frozen(x)

    def kernels() -> torch.Tensor:
        found = x
        for kernel, held in steps:
            result = kernel(found, *held)
            found = result if isinstance(result, torch.Tensor) else result[0]
        return found

    if (kernels() - model(x)).abs().max() > 1e-4:
        raise SystemExit("the kernels of this store are not those of benchmarks.pieces")
    return {
        "eager": lambda: model(x), "compile": lambda: compiled(x), "compile-max-autotune-freezing": lambda: frozen(x),
        "model with kernels": lambda: whole(x, *given), "kernels alone": kernels,
    }  # fmt: skip


def _blocks(model: nn.Module) -> list[nn.Module]:
    return [*model.get_submodule("first").children(), *model.get_submodule("second").children()]


def _judged(store: Path, name: str) -> tuple[Task, Candidate]:
    """Return the task of the newest run whose task's name begins so, and what was judged last in it."""
    with Store(store) as kept:
        run = next(run for run in kept.runs() if run.task_name.startswith(name) and kept.evaluations(run.id))
        return kept.task(run.task), kept.evaluations(run.id)[-1].candidate


def _loaded(task: Task, candidate: Candidate) -> tuple[Callable[..., Any], list[str]]:
    """Return a kernel that packs its weights once, and the names of those."""
    workload, language = task.workloads[0], get_language(candidate.language)
    build_ = language.build(candidate)
    if build_.artefact is None:
        raise SystemExit(build_.diagnostics)
    kernel = language.load(candidate, Path(build_.artefact), workload.outputs)
    names = [spec.name for spec in workload.state]
    return prepared(kernel, tuple(names)) or kernel, names


if __name__ == "__main__":
    raise SystemExit(main())
