"""How often honest kernels are refused: every own problem, written again in every way of `benchmarks.rewritings`.

    python -m benchmarks.honest --verifications 50000 --out build/honest.jsonl
    python -m benchmarks.honest --backward --only norm --rewriting welford
    python -m benchmarks.honest --dtype bfloat16 --json
    python -m benchmarks.honest --report build/*.jsonl

One verification compares one answer (a problem, a rewriting, a workload, a seed) as the judge does. Problems are
shrunk; a rewriting that has nothing to change in a problem is not counted. Each draw takes a quarter of the workloads
of every problem in turn, forward and backward in each dtype, so that no problem is left out where the run ends early.
With `--out`, a run that was stopped goes on where it was; `--part 1/2` takes every second problem, so that two
processes share the work.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom
from types import SimpleNamespace

import torch

from kernelwright.errors import TaskError
from kernelwright.records import CheckStatus, Workload
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import Oracle
from kernelwright.verify._case import Case
from kernelwright.verify.checks.correct import compare_outputs

from .flash import Narrowing
from .problems import problems
from .rewritings import REWRITINGS

MOST = 40_000
"""Elements of a problem."""
SHARES = 4
"""Draws in which the workloads of a problem are shared out."""
DTYPES = ("float32", "bfloat16", "float16")
NARROW = """
_Declared, _drawn = Model, get_inputs


class Model(_Declared):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.to(torch.{dtype})


def get_inputs():
    return [t.to(torch.{dtype}) if t.is_floating_point() else t for t in _drawn()]
"""
"""What makes a problem one of half precision."""


@dataclass
class Count:
    """Answers that were judged, by rewriting, and those refused."""

    problem: str = ""
    judged: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[str, str, int]] = field(default_factory=list)
    """Rewriting, workload and seed."""
    note: str = ""
    """Why nothing was judged."""

    @property
    def total(self) -> int:
        """Answers judged."""
        return sum(self.judged.values())


def main() -> None:
    """Print a line for each problem, then what was refused by problem and by rewriting."""
    options = _options()
    if options.report:
        print(table([c for path in options.report for c in _done(path).values()]))
        return
    torch.set_num_threads(1)
    done = _done(options.out)
    found = list(done.values())
    begun, total = time.monotonic(), sum(c.total for c in found)
    for name, path, dtype, backward, seed in _jobs(options):
        if total >= options.verifications:
            break
        if name in done:
            continue
        count = judged(path, seed, options.rewriting, dtype=dtype, backward=backward)
        count.problem = name
        found.append(count)
        total += count.total
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(asdict(count)) + "\n")
        rate = (total - sum(c.total for c in done.values())) / (time.monotonic() - begun)
        left = (options.verifications - total) / rate / 60 if rate else 0
        wrong = sorted({r[0] for r in count.refused})
        print(
            f"{name:52} {len(count.refused):4} of {count.total:5}; {total} in all, {left:.0f} min left", *wrong,
            count.note[:80], file=sys.stderr, flush=True,
        )  # fmt: skip
    print(json.dumps(summary(found), indent=1) if options.json else report(found))
    sys.exit(any(c.refused for c in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verifications", type=int, default=50_000, help="how many answers to judge at most")
    parser.add_argument(
        "--seeds", type=int, default=200, help="draws at most, each of a quarter of the workloads"
    )
    parser.add_argument("--backward", action="store_true", help="forward and backward together only")
    parser.add_argument("--dtype", choices=DTYPES, help="this dtype only")
    parser.add_argument("--only", default="", help="problems whose name holds this")
    parser.add_argument("--rewriting", nargs="*", choices=list(REWRITINGS), default=list(REWRITINGS))
    parser.add_argument("--part", default="0/1", help="I/N: every N-th problem, from the I-th")
    parser.add_argument("--out", type=Path, help="keep the counts here and go on from them")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--report", type=Path, nargs="+", help="print these counts as the table of the docs")
    return parser.parse_args()


def _done(path: Path | None) -> dict[str, Count]:
    if path is None or not path.exists():
        return {}
    counts = [Count(**json.loads(line)) for line in path.read_text().splitlines()]
    return {c.problem: c for c in counts}


def _jobs(options: argparse.Namespace) -> Iterator[tuple[str, Path, str, bool, int]]:
    """Yield name, file, dtype, whether backward too, and the number of the draw."""
    part, parts = map(int, options.part.split("/"))
    dtypes = (options.dtype,) if options.dtype else DTYPES
    kinds = [(dtype, backward) for dtype in dtypes for backward in (False, True)]
    kinds = [(dtype, backward) for dtype, backward in kinds if backward or not options.backward]
    paths = [p for _, p in problems() if options.only in p.stem][part::parts]
    for seed in range(options.seeds):
        for path in paths:
            for dtype, backward in kinds:
                yield f"{path.stem} {dtype}{' backward' * backward} {seed}", path, dtype, backward, seed


def judged(path: Path, number: int, names: Iterable[str], *, dtype: str, backward: bool) -> Count:
    """Load a problem and judge every rewriting of it on one draw of a share of its workloads."""
    try:
        oracle = load(path, backward=backward, dtype=dtype)
    except TaskError as error:
        return Count(note=str(error).replace(f"{path.parent}/", ""))
    workloads = oracle.task.workloads[number % SHARES :: SHARES]
    return judge(oracle, [SystemRandom().getrandbits(48)], names, workloads)


def load(path: Path, *, backward: bool = False, dtype: str = "float32") -> Oracle:
    """Load a problem, shrunk; in half precision if asked.

    Raises:
        TaskError: the problem has no such form.
    """
    if dtype == "float32":
        return Oracle(Problem(load_task(path, max_elements=MOST, backward=backward)))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(path.read_text() + NARROW.format(dtype=dtype))
        return Oracle(Problem(load_task(copy, max_elements=MOST, backward=backward)))


def judge(
    oracle: Oracle,
    seeds: Sequence[int],
    names: Iterable[str] = ("serial",),
    workloads: Sequence[Workload] = (),
) -> Count:
    """Evaluate workloads, or all, under every seed in every rewriting, and compare as the judge does."""
    count, names = Count(oracle.task.name), list(names)
    for workload in workloads or oracle.task.workloads:
        for seed in seeds:
            problem = oracle.problem
            inputs, state = problem.inputs(workload, seed), problem.state(workload, seed)
            case = oracle.make(workload, seed, inputs, state)
            for name in names if case.usable else ():
                answer = rewritten(problem, workload, case, name)
                if answer is None:
                    continue
                count.judged[name] = count.judged.get(name, 0) + 1
                found = compare_outputs("correct", answer, case)  # type: ignore[arg-type]  # it has outputs
                if found.status is not CheckStatus.PASS:
                    count.refused.append((name, workload.name, seed))
    return count


def rewritten(problem: Problem, workload: Workload, case: Case, name: str) -> SimpleNamespace | None:
    """Return the answer of a rewriting, rounded to the declared dtypes; none where it changes nothing."""
    evaluation = REWRITINGS[name]()
    if isinstance(evaluation, Narrowing):
        evaluation.declared = declared(case)
    found = problem.run_evaluated(workload, case.inputs, case.state, evaluation).outputs
    if not evaluation.used:
        return None
    outputs = tuple(o.to(r.output.dtype) for o, r in zip(found, case.outputs, strict=True))
    return SimpleNamespace(outputs=outputs)


def declared(case: Case) -> torch.dtype:
    """Return the dtype of a case's first float argument or weight; float32 where there is none."""
    tensors = (*case.tensors, *case.state.values())
    return next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)


def summary(found: Sequence[Count]) -> dict[str, object]:
    """Count by rewriting, and by problem what was refused."""
    judged_by: Counter[str] = Counter()
    for count in found:
        judged_by.update(count.judged)
    refused = Counter(name for count in found for name, *_ in count.refused)
    return {
        "verifications": judged_by.total(),
        "refused": refused.total(),
        "rewritings": {n: {"judged": judged_by[n], "refused": refused[n]} for n in judged_by},
        "problems": {c.problem: c.refused for c in found if c.refused},
    }


def report(found: Sequence[Count]) -> str:
    """Say the same in lines."""
    counts = summary(found)
    rows = [f"{n:16} {c['refused']:4} of {c['judged']:6}" for n, c in counts["rewritings"].items()]  # type: ignore[attr-defined]
    rows += [f"{p}: {r}" for p, r in counts["problems"].items()]  # type: ignore[attr-defined]
    return "\n".join([*rows, f"{counts['refused']} of {counts['verifications']} answers refused"])


def table(found: Sequence[Count]) -> str:
    """Write counts by kind and by rewriting as the Markdown of docs/honest.md."""
    kinds: dict[str, list[int]] = {}
    for count in found:
        kind = kinds.setdefault(count.problem.split(" ", 1)[1].rsplit(" ", 1)[0], [0, 0])
        kind[0] += count.total
        kind[1] += len(count.refused)
    counts = summary(found)
    rows = ["| kind | answers | refused |", "|---|---|---|"]
    rows += [f"| {kind} | {judged:,} | {refused} |" for kind, (judged, refused) in kinds.items()]
    rows += ["", "| rewriting | answers | refused |", "|---|---|---|"]
    rows += [f"| `{n}` | {c['judged']:,} | {c['refused']} |" for n, c in counts["rewritings"].items()]  # type: ignore[attr-defined]
    return "\n".join([f"{counts['refused']} of {counts['verifications']:,} answers refused.", "", *rows])


if __name__ == "__main__":
    main()
