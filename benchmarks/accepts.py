"""What this, OpenEvolve and ShinkaEvolve accept of the same scripted proposals, some of which are wrong or cheat.

    python -m benchmarks.accepts [--systems kernelwright,openevolve,shinka] [--venv DIR] [--store DIR]

The model's answers (`benchmarks/peers/programs.py`) come in the same order to all. The others call an evaluator as
their users write it (`benchmarks/peers/kernel_evaluator.py`: one input, allclose, a mean of twenty calls); here the
judge evaluates. Neither of the others ships a judge of kernels: what gets through is the evaluator's doing, and a user
who gives them a better one gets better. Then our judge rules on every program, whoever accepted it.

Accepted means: by the others, right and faster than the reference by their evaluator; here, a decision `improved`.
A false accept is an accepted program that the judge rejects; a duplicate one that was evaluated before. The best's
speedup is the judge's, over the reference run eagerly, none where the judge rejects it. Judgements are kept in
`--store` (by default for this time only), so that a second call with the same one does not make them again.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

import kernelwright as kw
from kernelwright.api.judge import judging
from kernelwright.records import Budget, Candidate, DecisionStatus, SourceFile, VerdictStatus
from kernelwright.search import Judgement
from kernelwright.store import Store

from .peers import kernel_evaluator
from .peers.kernel_evaluator import essence
from .peers.model import served
from .peers.programs import INITIAL, PROGRAMS, REPLIES
from .peers.running import ANSWER, BLOCK, PEERS, peers_python, run_peer

SYSTEMS = ("kernelwright", *PEERS)
TARGET = str(Path(__file__).parent / "peers" / "softmax.py")


def script(n: int) -> str:
    """Answer the n-th question."""
    program = PROGRAMS[REPLIES[n % len(REPLIES)]]
    return ANSWER.format(n=n, program=BLOCK.format(program=program.text))


@dataclass(frozen=True)
class Evaluated:
    """What one system made of the proposals."""

    programs: tuple[str, ...]
    """What was evaluated, in order, by essence."""
    accepted: Mapping[str, float]
    """What it took for faster, with the speedup it believed in."""


def ours(store: Path) -> Evaluated:
    """Run our search."""
    with served(script) as model:
        result = kw.optimize(
            TARGET, proposers=(), editors=("llm",), strategy="evolve", languages=("torch",), baselines=("eager",),
            budget=Budget(evaluations=len(set(REPLIES)), minutes=10), learn=False, store=store,
            more={"models": (model.name,), "edits": 1},
        )  # fmt: skip
    with Store(store) as kept:
        evaluations = kept.evaluations(result.run)
    accepted = {
        essence(e.candidate.sources[0].text): e.decision.speedup.median
        for e in evaluations
        if e.decision.status is DecisionStatus.IMPROVED and e.decision.speedup is not None
    }
    return Evaluated(tuple(essence(e.candidate.sources[0].text) for e in evaluations), accepted)


def theirs(system: str, python: Path) -> Evaluated:
    """Run one of the others."""
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "evaluated"
        run_peer(
            system, python, Path(name), script=script, initial=BLOCK.format(program=INITIAL.text),
            evaluator=Path(kernel_evaluator.__file__), questions=len(REPLIES),
            environment={"EVALUATED": str(log), "TORCH_SITE": str(Path(torch.__file__).parents[1])},
        )  # fmt: skip
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    best: dict[str, float] = {}
    for row in rows[1:]:  # the first is the program that they begin with
        best[row["program"]] = max(row["speedup"], best.get(row["program"], 0.0))
    return Evaluated(tuple(r["program"] for r in rows[1:]), {p: s for p, s in best.items() if s > 1})


@contextmanager
def truth(store: Path) -> Iterator[dict[str, Judgement]]:
    """Rule on every program, by essence."""
    with judging(TARGET, baselines=("eager",), store=store) as ask:
        yield {
            essence(p.text): ask(
                Candidate(
                    sources=(SourceFile(path="kernel.py", text=BLOCK.format(program=p.text)),),
                    language="torch", entry="kernel.py:run",
                ),
                False,
            )
            for p in PROGRAMS
        }  # fmt: skip


def row_of(system: str, found: Evaluated, ruled: Mapping[str, Judgement]) -> dict[str, object]:
    """Hold what a system accepted against what the judge says."""
    names = {essence(p.text): p.name for p in PROGRAMS}
    false = [p for p in found.accepted if ruled[p].verdict is VerdictStatus.REJECTED]
    best = max(found.accepted, key=lambda p: found.accepted[p], default=None)
    speedup = None if best is None or best in false else ruled[best].speedup
    return {
        "event": "system", "system": system, "proposed": len(REPLIES), "evaluated": len(found.programs),
        "duplicates": len(found.programs) - len(set(found.programs)), "accepted": len(found.accepted),
        "false_accepts": sorted(names[p] for p in false), "best": names.get(best or ""),
        "believed": found.accepted.get(best or ""), "true_speedup": speedup and speedup.median,
    }  # fmt: skip


def main() -> None:
    """Print the judge's ruling on each program and a row for each system, as JSON lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "kernelwright" / "peers")
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        store = given.store or Path(name)
        found = {}
        for system in given.systems.split(","):
            own = system == SYSTEMS[0]
            found[system] = ours(store) if own else theirs(system, peers_python(given.venv))
            seen = {"system": system, "evaluated": len(found[system].programs)}
            print(json.dumps({"event": "searched", **seen}), flush=True)
        with truth(store) as ruled:
            for program in PROGRAMS:
                one = ruled[essence(program.text)]
                failed = sorted({f.check for f in one.findings if f.status != "pass"})
                rule = {
                    "program": program.name,
                    "right": program.right,
                    "verdict": one.verdict,
                    "failed": failed,
                }
                print(json.dumps({"event": "program", **rule, "decision": one.decision}), flush=True)
            for system, one in found.items():
                print(json.dumps(row_of(system, one, ruled)), flush=True)


if __name__ == "__main__":
    main()
