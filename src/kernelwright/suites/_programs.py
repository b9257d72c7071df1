"""Benchmarks of whole programs: a program in, text from its standard input to its output; both verdicts.

Covers: answers on the benchmark's tests; answers on inputs of our own, by the original program's; time by two clocks,
in pairs of processes in random order, the smaller gain of the two counted; a second series on inputs that it has not
been given before, so that neither tests known by heart nor what earlier runs left is of use; every timed answer.
Does not cover: what a program keeps outside its folder, which Landlock and seccomp close where the kernel has them;
inputs of a form that no test has.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, Contract, DecisionStatus, Interval, Task, VerdictStatus
from ._attempts import attempted
from ._by_calls import Harness, judged_by_calls
from ._executed_programs import BY_ITSELF, EXECUTED_S, both_executed, executed_by, where_executed
from ._input_faults import Tried, by_heart, holds_answers, in_another_order
from ._modules import by_name
from ._program_harness import rewrites
from ._program_inputs import others_like
from ._program_runs import Built, Program, Ran, Trial, answers, built, equal, gains_of
from ._protocol import Script
from ._records import Ours, Rules, SuiteProblem, Theirs
from ._submission import Submission
from ._verdicts import refused, unknown

_OTHER_INPUTS, _TRIED_INPUTS, _LEAST_INPUTS = 8, 64, 4
_MORE_INPUTS, _PAIRS, _TIMED_TESTS = 16, 12, 3


class ProgramForm(ABC):
    """What adapters of such benchmarks share: no kernel is called, so that no problem of theirs is a task."""

    name: str
    rules: Rules
    suffix: str
    """What a finished program's name ends with."""

    @abstractmethod
    def program(self, data: Path, problem: SuiteProblem) -> Program:
        """Return a problem."""

    @abstractmethod
    def same(self, output: str, expected: str) -> bool:
        """Tell whether the benchmark takes an output for right."""

    def target(self, data: Path, problem: SuiteProblem, folder: Path) -> Path:
        """Refuse: a whole program is no task."""
        del data, folder
        raise TaskError(
            f"{problem.name} is a whole program, which no search changes; judge finished ones with `suite judge "
            f"{self.name} DIR`"
        )

    def candidates(self, folder: Path, problems: Sequence[SuiteProblem]) -> dict[str, Path]:
        """Find programs named like their problems."""
        return by_name(folder, problems, f"*{self.suffix}")

    def candidate(self, task: Task, file: Path) -> Candidate:
        """Refuse: it is judged as a program."""
        del task
        raise TaskError(f"{file} is a whole program, which is called by nobody")

    def submission(self, task: Task, candidate: Candidate) -> Submission | None:
        """Return nothing: a kernel is no program."""
        del task, candidate
        return None

    def script(self, task: Task, candidate: str, data: Path, problem: SuiteProblem) -> Script | None:
        """Return nothing: its rules run programs, not calls."""
        del task, candidate, data, problem
        return None

    def flags(self, candidate: str) -> tuple[str, ...]:
        """Return nothing: it screens no text."""
        del candidate
        return ()


def both_on_program(
    suite: ProgramForm, data: Path, problem: SuiteProblem, candidate: Path, device: str
) -> tuple[Theirs, Ours]:
    """Return both verdicts on a finished program."""
    program = suite.program(data, problem)
    path = next(iter(program.original), "solution" + suite.suffix)
    text = candidate.read_text(errors="replace")
    theirs, ours = _both(suite, program, {**program.files, path: text}, device)
    if ours.reason == BY_ITSELF and (command := executed_by(program, device)):
        how = Harness(program.build, command, program.tests[0].stdin, program.settings, EXECUTED_S)
        ours = judged_by_calls(how, program.files, path, program.original[path], text)
    rewritten = rewrites(text, program.files, path)
    if rewritten and ours.verdict is not VerdictStatus.REJECTED:
        reason = f"it defines {', '.join(rewritten)}, which its harness uses"
        ours = refused("harness", reason)
    return theirs, ours


def _both(suite: ProgramForm, program: Program, files: Mapping[str, str], device: str) -> tuple[Theirs, Ours]:
    executed = executed_by(program, device)
    sealed = not program.needs_gpu
    with built(program.build, files, executed=executed, sealed=sealed) as mine:
        if mine.failure:
            reason = f"it does not build: {mine.failure}"
            return Theirs(status="error", message=reason), refused("build", reason)
        if executed:
            return both_executed(program, mine, executed)
        if program.needs_gpu and device == "cpu":
            reason = "it builds; its tests need a GPU"
            return Theirs(status="unknown", message=reason), unknown(reason)
        with built(program.build, {**program.files, **program.original}, sealed=sealed) as original:
            theirs = _theirs(suite, program, mine, original)
            tried = attempted(program, mine, original) if theirs.status == "correct" and sealed else ""
            return theirs, refused("one-process", tried) if tried else _judged(program, mine, original)


def fault_of_program(suite: ProgramForm, data: Path, problem: SuiteProblem, device: str) -> str:
    """Say why a problem cannot be judged by: its own program does not build, or fails its tests; empty if it can."""
    program = suite.program(data, problem)
    if not program.original or not program.tests:
        return "it comes without a program of its own" if program.tests else "it comes without tests"
    executed = executed_by(program, device)
    with built(program.build, {**program.files, **program.original}, executed=executed) as original:
        if original.failure:
            return f"its own program does not build: {original.failure}"
        if executed:
            runs = (
                original.refusal or original.run(executed, t.stdin, EXECUTED_S, program.settings)
                for t in program.tests
            )
            said = [where_executed(ran)[0] for ran in runs]
        elif program.needs_gpu and device == "cpu":
            return ""
        else:
            said = [_wrong(suite, program, original, test) for test in program.tests]
        return next((f"its own program fails: {reason}" for reason in said if reason), "")


def _theirs(suite: ProgramForm, program: Program, mine: Built, original: Built) -> Theirs:
    passed, count = 0, len(program.tests)
    for test in program.tests:
        if said := _wrong(suite, program, mine, test):
            if said == _LATE and not _hangs(program, mine, original, test):
                return Theirs(status="unknown", trials=count, message=_BUSY)
            status = "timeout" if said == _LATE else "wrong"
            return Theirs(status=status, passed=passed, trials=count, message=said)
        passed += 1
    times = [
        sum(one.run(program.command, test.stdin, program.limit_s).wall_s for test in program.tests) / count
        for one in (mine, original)
    ]
    return Theirs(
        status="correct", passed=passed, trials=count, time_us=times[0] * 1e6, reference_us=times[1] * 1e6
    )


_LATE = "it takes too long"
_BUSY = (
    "it took too long once; that is no verdict, as it did not when it was run again, or the original does too"
)


def _wrong(suite: ProgramForm, program: Program, built_one: Built, test: Trial) -> str:
    ran = built_one.run(program.command, test.stdin, program.limit_s)
    if ran.late:
        return _LATE
    if ran.code:
        return f"exit code {ran.code}: {ran.output[-200:]}"
    right = test.expected is None or suite.same(ran.output, test.expected)
    return "" if right else "another output than the test's"


def _judged(program: Program, mine: Built, original: Built) -> Ours:
    """Return our verdict: exact on the tests, right on other inputs, then faster in pairs on both."""
    draw = random.Random()
    for test in program.tests:
        first, second = (mine.run(program.command, test.stdin, program.limit_s) for _ in range(2))
        if said := _differs(first, test) or (_LATE if second.late else ""):
            if said == _LATE and not _hangs(program, mine, original, test):
                return unknown(_BUSY)
            return refused("tests", said)
        if test.expected is not None and first.output != second.output:
            return refused("repeatable", _OTHERWISE)
    if any(test.expected is None for test in program.tests):
        return unknown(BY_ITSELF)
    with original.checked() as checked:
        others = _others(program, program.tests, original, checked, draw)
        fault, tried = _on_other_inputs(program, mine, others)
        seen = {one.trial.stdin for one in tried}
        if fault and fault.verdict is VerdictStatus.UNKNOWN and not all(one.agrees for one in tried):
            tried = [*tried, *islice(_tried(program, mine, others), _MORE_INPUTS)]
            said = by_heart(mine, original, program, tried) or in_another_order(
                program, mine, original, checked, draw
            )
            return refused("other-inputs", said) if said else fault

        def unseen(tests: Sequence[Trial]) -> Iterator[Trial]:
            found = _others(program, tests, original, checked, draw)
            telling = (other for base, other in found if _tells(other, tests[base]))
            return (other for other in telling if other.stdin not in seen)

        return fault or _timed(program, mine, original, unseen, draw)


def _hangs(program: Program, mine: Built, original: Built, test: Trial) -> bool:
    """Tell whether a program that was late is late again, where the original is not: a busy machine makes both late."""
    late, plain = (one.run(program.command, test.stdin, program.limit_s).late for one in (mine, original))
    return late and not plain


_OTHERWISE = "it prints something else when it is run again"
_ON_SOME = (
    "it differs from the original program on {} of {} inputs that no test has, which may not be ones that the problem "
    "allows"
)


def _differs(ran: Ran, test: Trial) -> str:
    if ran.late or ran.code:
        return _LATE if ran.late else f"exit code {ran.code}: {ran.output[-200:]}"
    return "" if test.expected is None or equal(ran.output, test.expected) else "a wrong answer on a test"


def _on_other_inputs(
    program: Program, mine: Built, others: Iterator[tuple[int, Trial]]
) -> tuple[Ours | None, list[Tried]]:
    """Compare with the original on inputs that no test has; nothing if they agree and enough of them tell.

    Returns:
        What is wrong, and what was tried.
    """
    tried = [*islice(_tried(program, mine, others), _OTHER_INPUTS)]
    agreed = [one.agrees for one in tried]
    if len(agreed) < _LEAST_INPUTS:
        return unknown(f"only {len(agreed)} inputs with answers besides the tests' could be made"), tried
    if not any(agreed):
        reason = f"it agrees with the original program on none of {len(agreed)} inputs that no test has"
        return refused("other-inputs", reason), tried
    return (None if all(agreed) else unknown(_ON_SOME.format(agreed.count(False), len(agreed)))), tried


def _tried(program: Program, mine: Built, others: Iterator[tuple[int, Trial]]) -> Iterator[Tried]:
    for base, other in others:
        if _tells(other, program.tests[base]):
            yield Tried(base, other, mine.run(program.command, other.stdin, program.limit_s))


def _tells(other: Trial, test: Trial) -> bool:
    """Tell whether an input has another answer than the test that it was made of, where who knows that is wrong."""
    return not equal(other.expected or "", test.expected or "")


def _others(
    program: Program, tests: Sequence[Trial], original: Built, checked: Built, draw: random.Random
) -> Iterator[tuple[int, Trial]]:
    """Yield inputs that no test has with the original's answers, where those are right, and the test of each."""
    for base, text in others_like([test.stdin for test in tests], draw, _TRIED_INPUTS):
        runs = [one.run(program.command, text, program.limit_s) for one in (original, checked)]
        if not any(ran.late or ran.code for ran in runs) and equal(runs[0].output, runs[1].output):
            yield base, Trial(text, runs[0].output)


def _timed(
    program: Program, mine: Built, original: Built, unseen: Callable[[Sequence[Trial]], Iterator[Trial]],
    draw: random.Random,
) -> Ours:  # fmt: skip
    """Time it on the tests and then on inputs that it is given for the first time, as a program may know the tests.

    Of both the smaller gain counts.
    """
    least, confidence = Contract().least_effect, Contract().confidence
    heavy = sorted(
        program.tests,
        key=lambda test: -original.run(program.command, test.stdin, program.limit_s).wall_s,
    )[:_TIMED_TESTS]
    on_tests = gains_of(program, mine, original, [heavy] * _PAIRS, draw, confidence)
    if on_tests is None:
        return refused("repeatable", _OTHERWISE)
    if not on_tests.at_least > 1 + least:
        return _by_speed(on_tests, "")
    others = list(islice(unseen(heavy), _PAIRS))
    if len(others) < _LEAST_INPUTS:
        return unknown(f"only {len(others)} inputs could be made to time it on besides the tests'")
    pairs = [[others[at % len(others)]] for at in range(_PAIRS)]
    on_others = gains_of(program, mine, original, pairs, draw, confidence)
    if on_others is None:
        again = (mine.run(program.command, test.stdin, program.limit_s) for test in program.tests)
        if not all(answers(ran, test) for ran, test in zip(again, program.tests, strict=True)):
            return refused("repeatable", _OTHERWISE)
        return unknown(_ON_SOME.format("some", len(others)))
    if on_others.at_least > 1 + least:
        found = min(on_tests, on_others, key=lambda one: one.median)
        return _decided(DecisionStatus.IMPROVED, "right and faster, on the tests and on other inputs", found)
    if on_others.at_most < on_tests.at_least and holds_answers(mine, original, program):
        return refused("other-inputs", "it is faster on the tests alone, whose answers its file holds")
    return _by_speed(on_others, ", on inputs that no test has; it was faster on the tests")


def _by_speed(found: Interval, where: str) -> Ours:
    """Return what follows for a right program that is not faster, or not surely."""
    if found.at_most < 1:
        return _decided(DecisionStatus.SLOWER, f"right and slower{where}", found)
    if found.at_most < 1 + Contract().least_effect:
        return _decided(DecisionStatus.EQUAL, f"right, and no gain worth having{where}", found)
    return _decided(DecisionStatus.INCONCLUSIVE, f"right; its speed is not decided{where}", found)


def _decided(decision: DecisionStatus, reason: str, speedup: Interval) -> Ours:
    return Ours(verdict=VerdictStatus.ACCEPTED, decision=decision, reason=reason, speedup=speedup)
