"""What one cycle of proposal and evaluation costs without the model: here, OpenEvolve and ShinkaEvolve, side by side.

    python -m benchmarks.cycle [--cycles 50] [--rounds 3] [--edits 4] [--venv DIR]

One scripted model, in a process of its own, answers all three at once with the same programs in the same order;
every third answer repeats an earlier program. All three call the same evaluator (`benchmarks/peers/evaluator.py`),
which takes no time. A cycle is the wall time from one question to the next, the mean over a round; the systems take
turns, and the figure is the best of the rounds, for other work on the machine only ever adds to it. The peers run in
an environment of their own, made in `--venv` on first use.

Two rows are the floor under all of them: `call` is OpenAI's SDK in a loop and nothing else, `evaluator` the evaluator
in a loop. What a system *adds* is its cycle less these two: a call a question, and as many evaluations as it made, for
here what is proposed again is not evaluated again. The result has the whole cycle and what is added, each as a share of
the better peer's. Target of the latter, the overhead: at most half.

Proposals and evaluations overlap here: `kernelwright` has as many questions under way as a run has by default, or
`--edits`; `one-at-a-time` has one, as the peers. `overlapped` is the share of the latter's cycle that the former saves;
with a model that answers at once it is work on another core or none, for what waits for no model competes for one
interpreter. Both are set against the peers.

In a cycle, besides the call over HTTP by OpenAI's SDK and the evaluator:

- here: strategy, prompt, parser, duplicates told apart, ledger before and after, journal, evaluation and events,
  on disk before the next move;
- OpenEvolve: prompt, parser and evaluator in a worker process, its database in memory (on disk every 100 iterations);
  one worker, with a question for each of its five islands queued ahead, so that it never waits for the database;
- ShinkaEvolve: prompt, parser, a process started for each evaluation and polled for, a row in SQLite.

Not in it, on all sides: start-up, real evaluation (`benchmarks.evaluations` has ours).
"""

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright.devices import detect
from kernelwright.propose import Request
from kernelwright.propose.llm import LLMEditor
from kernelwright.records import (
    Budget,
    CheckStatus,
    Decision,
    DecisionStatus,
    Evaluation,
    Finding,
    Interval,
    Verdict,
)  # fmt: skip
from kernelwright.search import Meter
from kernelwright.search.editing._editing import WIDTH
from kernelwright.search.editing._edits import Edits, EditServices
from kernelwright.search.evaluation._evaluation import Evaluator
from kernelwright.search.proposals._builder import Builder
from kernelwright.search.proposals._scheduler import Scheduler
from kernelwright.search.run._events import Log
from kernelwright.search.session._session import Session
from kernelwright.search.strategies import Means, make_strategy
from kernelwright.search.tuners import make_tuner
from kernelwright.store import Store
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import PlantedJudge, PlantedLanguage

from .peers import evaluator
from .peers.model import served
from .peers.running import ANSWER, BLOCK, PEERS, peers_python, run_peer

_WARM = 3
"""Questions in the beginning that are not counted: start-up."""
OURS = ("kernelwright", "one-at-a-time")
SYSTEMS = ("call", "evaluator", *OURS, *PEERS)
TARGET = str(Path(__file__).parent / "tasks" / "softmax.py") + ":softmax"
PROGRAM = BLOCK.format(program="SPEED = {speed}\n\n\ndef run(x):\n    return {answer}\n")
INITIAL = PROGRAM.format(speed=1.0, answer="x * 2")


def script(n: int) -> str:
    """Answer the n-th question: every third answer repeats an earlier program, every fifth program is wrong."""
    program = n - 2 if n % 3 == 2 else n
    text = PROGRAM.format(speed=1.0 + program / 100, answer="x * 3" if program % 5 == 4 else "x + x")
    return ANSWER.format(n=n, program=text)


@dataclass(frozen=True)
class Cost:
    """What one system did."""

    system: str
    cycle_s: float
    """Mean seconds from one question to the next, the first few left out."""
    questions: int
    evaluations: int
    duplicates: int
    """Evaluations of a program that had been evaluated before."""

    @classmethod
    def of(cls, system: str, asked_s: Sequence[float], log: Path) -> "Cost":
        """Work it out from the model's clock and the evaluator's log."""
        warm = asked_s[_WARM:]
        calls = log.read_text().split() if log.exists() else []
        mean = (warm[-1] - warm[0]) / (len(warm) - 1) if len(warm) > 1 else float("nan")
        return cls(system, mean, len(asked_s), len(calls), len(calls) - len(set(calls)))


class ProgramJudge(PlantedJudge):
    """Takes the shared evaluator's word; nothing is measured."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._program = folder / "program.py"

    def screen(self, candidate, build, **limits):
        """Write the program down, have it evaluated, and say what came out."""
        del limits
        self._program.write_text(candidate.sources[0].text)
        right, speed = evaluator.judge(str(self._program))
        finding = Finding(check="correct", status=CheckStatus.PASS if right else CheckStatus.FAIL)
        verdict = Verdict(candidate=candidate.key, findings=(finding,), failure="" if right else "correct")
        decision = Decision(
            candidate=candidate.key, reason="the evaluator's word",
            status=DecisionStatus.INCONCLUSIVE if right else DecisionStatus.REJECTED,
            speedup=Interval(median=speed) if right else None, time_us=100.0 / speed if right else 0.0,
        )  # fmt: skip
        return Evaluation(
            candidate=candidate, build=build, verdict=verdict, decision=decision,
            stage="screen" if right else "verify",
        )  # fmt: skip

    def accept(self, candidate, build, **more):
        """Accept nothing: the figure is of the exploration."""
        del more
        stopped = Decision(candidate=candidate.key, status=DecisionStatus.UNKNOWN, reason="not part of this")
        return Evaluation(candidate=candidate, build=build, decision=stopped, stage="full")


class Programs(PlantedLanguage):
    """Python programs, built by doing nothing."""

    name = "torch"


def ours(folder: Path, cycles: int, edits: int, name: str = "kernelwright") -> Cost:
    """Run our session with the model editor and the default strategy, so many edits under way at once."""
    log, asked = folder / "log", itertools.count()
    os.environ["CYCLE_LOG"] = str(log)
    with served(script) as model, Store(folder) as store:
        task = load_task(TARGET, max_elements=10_000)
        options = {"models": (model.name,)}
        run = store.create_run(
            task, device="cpu-0", budget=Budget(evaluations=cycles), seed=0, options=options
        )
        meter, languages, editor = Meter(run.budget, store.spent(run.id)), {"torch": Programs()}, LLMEditor()
        judging = Evaluator(run, store, ProgramJudge(folder), languages, meter)
        request = Request(
            Problem(task),
            detect("cpu"),
            (),
            ("torch",),
            options=options,
            store=store.folder,
            calls=store.calls,
            run=run.id,
        )

        def room(under_way: int) -> bool:
            del under_way
            return next(asked) < cycles

        emit = Log(store, run.id, meter, None)
        desk = EditServices([editor], request, edits, room, lambda: 3600.0, emit)
        means = Means(0, tuple(editor.operators))
        strategy, journal = make_strategy("evolve", means), store.journal(run.id)
        with (
            Edits(strategy, desk, journal, judging.evaluations, ()) as moves,
            Builder(languages, width=1) as builder,
        ):
            scheduler = Scheduler(iter(()), lambda space: make_tuner("random", space, 0), moves)
            Session(scheduler, builder, judging, meter, emit).run()
    return Cost.of(name, model.asked_s, log)


def theirs(system: str, folder: Path, python: Path, cycles: int) -> Cost:
    """Run one of the others in its environment."""
    log = folder / "log"
    model = run_peer(
        system, python, folder, script=script, initial=INITIAL, evaluator=Path(evaluator.__file__), questions=cycles,
        environment={"CYCLE_LOG": str(log)},
    )  # fmt: skip
    return Cost.of(system, model.asked_s, log)


def run(system: str, folder: Path, python: Path, cycles: int, edits: int) -> Cost:
    """Run one row of the table."""
    if system in PEERS:
        return theirs(system, folder, python, cycles)
    match system:
        case "call":
            return call_alone(folder, cycles)
        case "evaluator":
            return evaluator_alone(folder, cycles)
        case "one-at-a-time":
            return ours(folder, cycles, 1, system)
        case _:
            return ours(folder, cycles, edits)


def call_alone(folder: Path, cycles: int) -> Cost:
    """Ask and do nothing with the answers."""
    import openai

    with served(script) as model:
        client = openai.OpenAI(api_key="none", base_url=f"{model.url}/v1", max_retries=0)
        for _ in range(cycles):
            client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": INITIAL}])
    return Cost.of("call", model.asked_s, folder / "log")


def evaluator_alone(folder: Path, cycles: int) -> Cost:
    """Evaluate the programs of the script, and nothing else."""
    path, log, begun_s = folder / "program.py", folder / "log", []
    os.environ["CYCLE_LOG"] = str(log)
    for n in range(cycles):
        path.write_text(script(n).partition("```python\n")[2].partition("```")[0])
        begun_s.append(time.monotonic())
        evaluator.judge(str(path))
    return Cost.of("evaluator", begun_s, log)


def shares(cycle_s: Mapping[str, float], evaluated: Mapping[str, float]) -> dict[str, float]:
    """Set ours against the better peer: the whole cycle, and what is added to the call and the evaluator.

    Args:
        cycle_s: Seconds a question, by system.
        evaluated: Evaluations a question, by system.
    """

    def added_s(name: str) -> float:
        return cycle_s[name] - cycle_s["call"] - evaluated[name] * cycle_s["evaluator"]

    better = min(PEERS, key=lambda peer: cycle_s[peer])
    found = {"overlapped": 1 - cycle_s["kernelwright"] / cycle_s["one-at-a-time"]}
    for name in OURS:
        found[f"{name}: share of the cycle"] = cycle_s[name] / cycle_s[better]
        found[f"{name}: share of what is added"] = added_s(name) / added_s(better)
    return found


def main() -> None:
    """Print a row for each system and round, as JSON lines, and the shares of the better peer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edits", type=int, default=WIDTH)
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "kernelwright" / "peers")
    given = parser.parse_args()
    python = peers_python(given.venv)
    best_s: dict[str, float] = {}
    evaluated: dict[str, float] = {}
    for _ in range(given.rounds):
        for system in SYSTEMS:
            with tempfile.TemporaryDirectory() as name:
                one = run(system, Path(name), python, given.cycles, given.edits)
            best_s[system] = min(one.cycle_s, best_s.get(system, one.cycle_s))
            evaluated[system] = one.evaluations / one.questions if one.questions else 0.0
            load = round(os.getloadavg()[0], 1)
            print(json.dumps({"event": "system", **one.__dict__, "load": load}), flush=True)
    print(json.dumps({"event": "result", "cycle_s": best_s, **shares(best_s, evaluated), "target": 0.5}))


if __name__ == "__main__":
    main()
