"""What trust costs: wall and CPU seconds of the judge by stage, for a right kernel and a wrong one.

    python -m benchmarks.acceptance_cost
    python -m benchmarks.acceptance_cost --task examples/swiglu.py --baselines eager compile

The right candidate is the reference itself, which costs more than a winner: measurement goes on until it is
sure that there is no gain. The wrong one answers zeros. Baselines start in an unprinted first screening.
Where the contract says what a kernel may call, screening also starts a worker whose calls are watched and one in which
torch's operators are spoilt; what each takes to be loaded stands below, with a plain one for comparison.
Targets on a quiet machine of two cores: acceptance of a millisecond kernel under 20 s, a wrong one under 1 s.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

from kernelwright.config import Settings
from kernelwright.devices import detect
from kernelwright.languages import get_language
from kernelwright.records import Candidate, Evaluation, SourceFile, Split, TensorSpec
from kernelwright.sandbox import Alone, Payload, Pool
from kernelwright.search.evaluation.acceptance import Acceptance
from kernelwright.tasks import Problem, load_task

_TASKS = ("examples/swiglu.py", "examples/rmsnorm_residual.py")
_ROUNDS = 5
_ZEROS = """
import torch


def run(*arguments):
    return {outputs}
"""


def main() -> None:
    """Print one line for each task and kind, and the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", default=_TASKS)
    parser.add_argument("--baselines", nargs="+", default=["eager"])
    options = parser.parse_args()
    walls: dict[str, list[float]] = {}
    for path in options.task:
        problem = Problem(load_task(path))
        with Acceptance(
            problem, detect("cpu"), (), tuple(options.baselines), settings=Settings.from_environment()
        ) as judge:
            for kind, seconds in costs(problem, judge).items():
                walls.setdefault(kind, []).append(seconds)
    for kind, all_seconds in walls.items():
        print(f"median {kind:13} {median(all_seconds):6.2f} s")
    for kind, seconds in start_ups(_ROUNDS).items():
        print(f"median worker {kind:7} {seconds:6.2f} s until it is loaded")


def start_ups(rounds: int) -> dict[str, float]:
    """Return median wall seconds until a worker of each kind is loaded, its zygote started before."""
    source = SourceFile(path="one.py", text="def run(x):\n    return x + 1\n")
    candidate = Candidate(sources=(source,), language="torch", entry="one.py:run")
    kinds = {
        "plain": Payload(candidate),
        "watched": Payload(candidate, watched=True),
        "bereft": Payload(candidate, alone=Alone(spared=(), library=(), kinds=(), least=1)),
    }
    with Pool(Settings.from_environment()) as pool:
        pool.worker(kinds["plain"]).kill()
        return {
            kind: median(_loading_s(pool, payload) for _ in range(rounds)) for kind, payload in kinds.items()
        }


def _loading_s(pool: Pool, payload: Payload) -> float:
    begun = time.monotonic()
    with pool.worker(payload):
        return time.monotonic() - begun


def costs(problem: Problem, judge: Acceptance) -> dict[str, float]:
    """Return wall seconds by kind of judgement, build excluded; print stages on the way."""
    search = problem.task.split(Split.SEARCH)[0]
    right, wrong = problem.baseline("eager", search), _zeros(problem)
    builds = {c.key: get_language(c.language).build(c) for c in (right, wrong)}
    judge.screen(right, builds[right.key])
    kinds: dict[str, Callable[[], Evaluation]] = {
        "screen, right": lambda: judge.screen(right, builds[right.key]),
        "screen, wrong": lambda: judge.screen(wrong, builds[wrong.key]),
        "accept, right": lambda: judge.accept(right, builds[right.key]),
        "accept, wrong": lambda: judge.accept(wrong, builds[wrong.key]),
    }
    return {kind: _timed(problem.task.name, kind, judged) for kind, judged in kinds.items()}


def _timed(task: str, kind: str, judged: Callable[[], Evaluation]) -> float:
    begun, cpu = time.monotonic(), time.process_time()
    found = judged()
    wall, cpu = time.monotonic() - begun, time.process_time() - cpu
    stages = ", ".join(f"{k} {v:.2f}" for k, v in found.stages_s.items() if k != "build")
    print(f"{task:20} {kind:13} {wall:6.2f} s wall {cpu:6.2f} s CPU  {found.decision.status:12} {stages}")
    return wall


def _zeros(problem: Problem) -> Candidate:
    """Return a candidate of the right shape and the wrong values."""
    outputs = [f"torch.zeros({list(s.shape)}, dtype=torch.{s.dtype})" for s in _outputs(problem)]
    made = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return Candidate(
        sources=(SourceFile(path="zeros.py", text=_ZEROS.format(outputs=made)),),
        language="torch",
        entry="zeros.py:run",
    )


def _outputs(problem: Problem) -> tuple[TensorSpec, ...]:
    return min(problem.task.split(Split.SEARCH), key=lambda w: sum(w.axes.values())).outputs


if __name__ == "__main__":
    main()
