"""Admit every problem of the suites of our own, and try the gates of `edits` with starts and known answers.

    python -m benchmarks.own_suites                      a row a suite; exit code 1 where one is not clean
    python -m benchmarks.own_suites --seed 7 --only train
    python -m benchmarks.own_suites --gates              the judge on every start and every known answer too

Times are CPU seconds of one process.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernelwright.api.judge import judging
from kernelwright.config import Settings
from kernelwright.records import VerdictStatus
from kernelwright.sandbox import Pool
from kernelwright.suites import Setup, Written, diagnose, get_suite, suite_names, write
from kernelwright.suites.own.edits import Edits, baselines_of, gate_of, unmet
from kernelwright.tasks import candidate_of, load_candidate, load_task

MINUTES = 5.0


def main() -> int:
    """Print a row for each suite, and what is not clean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--gates", action="store_true")
    parser.add_argument("--request", default="", help="only gates of these requests, such as `tune`")
    options = parser.parse_args()
    wrong = 0
    print("suite\tproblems\tadmitted\twrong answers caught\tCPU s")
    for name in suite_names():
        suite = get_suite(name)
        if isinstance(suite, Written) and options.only in name:
            wrong += admitted(suite, options.seed)
    if options.gates:
        for line in gates(options.seed, options.request):
            wrong += not line.endswith("as expected")
            print(line, flush=True)
    return int(wrong > 0)


def admitted(suite: Written, seed: int) -> int:
    """Admit every problem of a suite, print its row, and return how many are not fit."""
    begun = time.process_time()
    with (
        tempfile.TemporaryDirectory() as home,
        Pool(Settings.from_environment(), arena_bytes=1 << 20) as pool,
    ):
        data = Path(home) / "data"
        write(suite, data, seed)
        found = list(diagnose(Setup(suite, data, pool, minutes=MINUTES), suite.problems(data), admits=True))
    unfit = [d for d in found if not d.loads or d.degenerate or d.reason]
    tried, passed = sum(d.tried for d in found), sum(len(d.passing) for d in found)
    seconds = time.process_time() - begun
    print(
        f"{suite.name}\t{len(found)}\t{len(found) - len(unfit)}\t{tried - passed} of {tried}\t{seconds:.0f}"
    )
    for one in unfit:
        print(f"  {one.problem}: {one.says}", flush=True)
    return len(unfit)


def gates(seed: int, request: str) -> Iterator[str]:
    """Judge every start, which must not meet its gate, and every known answer, which must; yield what was found."""
    suite = Edits()
    answers = suite.answers(seed)
    with tempfile.TemporaryDirectory() as home:
        data, store = Path(home) / "data", Path(home) / "store"
        write(suite, data, seed)
        for problem in suite.problems(data):
            folder = (data / problem.file).parent
            task, gate = load_task(folder), gate_of((data / problem.file).read_text())
            if request not in gate.request:
                continue
            start = candidate_of(task.start, task)
            with judging(task, device="cpu", baselines=baselines_of(gate), store=store) as ask:
                judged = ask(start, not gate.faster)
                right = (judged.verdict is VerdictStatus.ACCEPTED) is (gate.request != "fix")
                left = unmet(gate, start.language, start.sources[0].text, judged)
                fit = "as expected" if right and left else f"{judged.verdict}, {left}: {judged.reason}"
                yield f"{problem.name}\tstart\t{fit}"
                if problem.name in answers:
                    file = Path(home) / answers[problem.name].path
                    file.write_text(answers[problem.name].text)
                    answer = load_candidate(file, task)
                    judged = ask(answer, not gate.faster)
                    left = unmet(gate, answer.language, answers[problem.name].text, judged)
                    yield f"{problem.name}\tanswer\t" + (
                        f"{left}: {judged.reason}" if left else "as expected"
                    )


if __name__ == "__main__":
    raise SystemExit(main())
