"""A quick look at the zoo: the schedules of whole models against eager and torch.compile, on one thread, unjudged.

    python -m benchmarks.zoo.look [--only vision,llama] [--rounds 15] [--peer openvino] [--peer onnxruntime] [--out rows.jsonl]

Each model runs in a process of its own. The first programs of the policy are built with their defaults and called in turn
with the native forms and the peers that are asked for; times are processor seconds of one thread, so that a busy machine can
be used. An answer must be near the native one; nothing else is verified. `python -m benchmarks.zoo` lets the judge decide.
"""

import argparse
import copy
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.zoo.__main__ import HERE, models
from kernelwright.compiler import schedules
from kernelwright.languages import get_language
from kernelwright.languages._runtimes import RUNTIMES, converted
from kernelwright.languages.prepared import prepared
from kernelwright.models import load_model
from kernelwright.tasks import Problem
from kernelwright.tasks.forms import kernelbench

_MOST_S, _PROGRAMS, _NEAR = 420.0, 3, 1e-3
Call = Callable[[], Any]
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Look at the models that were asked for, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", default="", help="categories and models, by comma")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--peer", action="append", default=[], choices=RUNTIMES)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help="look at this target in this process, and print its row")
    asked = parser.parse_args(argv)
    if asked.one:
        print(json.dumps(look(asked.one, asked.rounds, asked.peer)))
        return 0
    wanted = set(filter(None, asked.only.split(",")))
    gains = []
    against: dict[str, list[float]] = {peer: [] for peer in asked.peer}
    for category, name in models():
        if wanted and not wanted & {category, name}:
            continue
        row = {"category": category, "model": name, **_apart(f"{HERE / category}.py:{name}", asked)}
        print(f"{category}/{name}: {_line(row)}", flush=True)
        gains.append(row.get("gain", 1.0))
        for peer, found in row.get("peers", {}).items():
            against[peer] += [found["gain"]] if "gain" in found else []
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    if gains:
        mean = _mean([max(1.0, gain) for gain in gains])
        print(
            f"{len(gains)} models; geometric mean over the better native form {mean:.2f}, the native one where it is faster"
        )
    for peer, ratios in against.items():
        print(f"{peer} takes {len(ratios)} of them; geometric mean over it {_mean(ratios or [1.0]):.2f}")
    return 0


def look(target: str, rounds: int, peers: Sequence[str] = ()) -> Row:
    """Return the times of the native forms, the peers and the first programs, and the gains of the fastest program.

    Over a peer it is the faster of that program and the better native form that counts, as a user would have it.
    """
    torch.set_num_threads(1)
    loaded = load_model(target)
    assert loaded.text is not None
    task = kernelbench.load(loaded.origin, loaded.text, max_elements=None, contract=None)
    problem, workload = Problem(task), task.workloads[0]
    inputs, state = problem.inputs(workload, seed=0), problem.state(workload, seed=0)
    reference = problem.reference(workload, state)
    with torch.no_grad():
        compiled = torch.compile(reference)
        calls: dict[str, Call] = {"eager": lambda: reference(*inputs), "compile": lambda: compiled(*inputs)}
        wanted = _first(reference(*inputs))
        compiled(*inputs)
        for text, call in _programs(problem, [*inputs, *state.values()]):
            if _away(call(), wanted) < _NEAR:
                calls[text] = call
        refused = {}
        for peer in peers:
            made = converted(copy.copy, peer, makes_modules=True)(reference)
            try:
                away = _away(made(*inputs), wanted)
            except Exception as error:  # noqa: BLE001  whatever a runtime raises is why it does not take the model
                refused[peer] = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
                continue
            calls[peer] = partial(made, *inputs)
            if away >= _NEAR:
                refused[peer] = {"error": f"its answer is off by {away:.1g} of the largest value"}
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, call in calls.items():
                begun = time.process_time()
                call()
                times[name].append(time.process_time() - begun)
    native = [min(pair) for pair in zip(times["eager"], times["compile"], strict=True)]
    ratios = {
        name: median(n / t for n, t in zip(native, spent, strict=True))
        for name, spent in times.items()
        if name not in ("eager", "compile", *peers)
    }
    best = max(ratios, key=lambda name: ratios[name], default="")
    ours = times[best] if ratios.get(best, 1.0) > 1.0 else native
    gains = {
        p: {"gain": median(t / o for t, o in zip(times[p], ours, strict=True))} for p in peers if p in times
    }
    return {
        "times_us": {name: median(spent) * 1e6 for name, spent in times.items()}, "program": best,
        "gain": ratios.get(best, 1.0), "peers": {**gains, **refused},
    }  # fmt: skip


def _programs(problem: Problem, given: list[Any]) -> Iterator[tuple[str, Call]]:
    workload, language = problem.task.workloads[0], get_language("cpp")
    for schedule in itertools.islice(schedules(problem, ("cpp",)), _PROGRAMS):
        candidate = schedule.render(schedule.default())
        build = language.build(candidate)
        if build.artefact is None:
            continue
        kernel = language.load(candidate, Path(build.artefact), workload.outputs)
        kernel = prepared(kernel, tuple(s.name for s in workload.state)) or kernel
        yield schedule.name, lambda kernel=kernel: kernel(*given)  # type: ignore[misc]


def _away(result: Any, wanted: torch.Tensor) -> float:
    """Return how far the first result is off, in shares of the largest value."""
    return float((_first(result) - wanted).abs().max() / wanted.abs().max())


def _first(result: Any) -> torch.Tensor:
    found: torch.Tensor = result if isinstance(result, torch.Tensor) else result[0]
    return found


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _apart(target: str, asked: argparse.Namespace) -> Row:
    """Look in a process of its own, which may die."""
    command = [sys.executable, "-m", "benchmarks.zoo.look", "--one", target, "--rounds", str(asked.rounds)]
    command += [word for peer in asked.peer for word in ("--peer", peer)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_S, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {_MOST_S:.0f} s"}
    if done.returncode:
        said = done.stderr.strip().splitlines()
        return {"error": said[-1][:300] if said else f"ended with {done.returncode}"}
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def _line(row: Row) -> str:
    if "error" in row:
        return str(row["error"])
    times = row["times_us"]
    peers = "".join(f", {p} {f.get('error') or format(f['gain'], '.2f')}" for p, f in row["peers"].items())
    return f"{row['gain']:.2f}{peers} by {row['program'] or 'nothing'}; eager {times['eager']:.0f} us, compile {times['compile']:.0f} us"


if __name__ == "__main__":
    raise SystemExit(main())
