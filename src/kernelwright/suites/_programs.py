"""Benchmarks of whole programs: a program in, text from its standard input to its output; both verdicts.

Covers: answers on the benchmark's tests; answers on inputs of our own, by the original program's; time by
two clocks, in pairs of processes in random order, the smaller gain of the two counted; a second series that agrees.
Does not cover: what a program keeps outside its folder, which Landlock closes where the kernel has it; processes that
leave its group and outlive it, if they write no output; inputs of a form that no test has.
"""

import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import TaskError
from ..executor import whole
from ..executor._loading import executes
from ..records import Candidate, Contract, DecisionStatus, Interval, Task, VerdictStatus
from ._modules import by_name
from ._program_inputs import others_like
from ._program_runs import Built, Ran, built, gains_of
from ._protocol import Script
from ._records import Ours, Rules, SuiteProblem, Theirs
from ._submission import Submission

_OTHER_INPUTS, _TRIED_INPUTS, _LEAST_INPUTS = 8, 64, 4
_PAIRS, _TIMED_TESTS = 12, 3
EXECUTED_S = 600.0
"""Most seconds of one run of a program whose launches are executed."""
_BY_ITSELF = (
    "it ends as its harness wants, which says nothing sure: the harness is in its process and tells by the exit code "
    "alone, which a program can forge"
)


@dataclass(frozen=True)
class Trial:
    """One run of a program."""

    stdin: str
    """What it is given."""
    expected: str | None
    """What it has to print; None if its exit code alone tells."""


@dataclass(frozen=True)
class Program:
    """A problem: what is built around a program, and what it is run on."""

    files: Mapping[str, str]
    """What is there besides the program, by path."""
    original: Mapping[str, str]
    """The benchmark's own program, by path."""
    build: str
    """The command that builds it, in the folder of the files."""
    command: str
    """The command that runs it."""
    tests: tuple[Trial, ...]
    """What the benchmark runs it on."""
    limit_s: float
    """Most seconds of one run."""
    needs_gpu: bool = False
    """Whether it can only run on a GPU."""
    settings: str = ""
    """Variables of the benchmark's own for a run that is not timed, as a shell has them: `PROFILING_MODE=1`."""


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
    files = {**program.files, path: candidate.read_text(errors="replace")}
    executed = _executed(program, device)
    with built(program.build, files, executed=executed) as mine:
        if mine.failure:
            reason = f"it does not build: {mine.failure}"
            return Theirs(status="error", message=reason), _ours(VerdictStatus.REJECTED, reason, "build")
        if executed:
            return _both_executed(program, mine, executed)
        if program.needs_gpu and device == "cpu":
            reason = "it builds; its tests need a GPU"
            return Theirs(status="unknown", message=reason), _undecided(reason)
        with built(program.build, {**program.files, **program.original}) as original:
            theirs = _theirs(suite, program, mine, original)
            return theirs, _judged(program, mine, original)


def _executed(program: Program, device: str) -> str:
    """Return the command that runs a CUDA program by the PTX executor; empty where it is not run so."""
    by_nvcc = program.build.split()[:1] == ["nvcc"] and shutil.which("nvcc") is not None
    return program.command if program.needs_gpu and device == "cpu" and by_nvcc and executes() else ""


def _both_executed(program: Program, mine: Built, command: str) -> tuple[Theirs, Ours]:
    """Return both verdicts on a program whose launches are executed; nothing of it is timed."""
    for test in program.tests:
        reason, verdict = _where_executed(
            mine.refusal or mine.run(command, test.stdin, EXECUTED_S, program.settings)
        )
        if verdict is VerdictStatus.UNKNOWN:
            return Theirs(status="unknown", message=reason), _undecided(reason)
        if verdict is VerdictStatus.REJECTED:
            with built(program.build, {**program.files, **program.original}, executed=command) as original:
                ran = (
                    original.refusal
                    or original.failure
                    or original.run(command, test.stdin, EXECUTED_S, program.settings)
                )
                fails = _where_executed(ran)[0]
            if fails:
                reason = f"the benchmark's own program fails where it is executed, too: {fails}"
                return Theirs(status="unknown", message=reason), _undecided(reason)
            return Theirs(status="wrong", trials=1, message=reason), _ours(verdict, reason, "tests")
    return Theirs(status="correct", passed=1, trials=1), _undecided(_BY_ITSELF)


def _where_executed(ran: Ran | str) -> tuple[str, VerdictStatus]:
    """Say why an executed program is not right, and what follows for ours; empty if its exit code says that it is."""
    if isinstance(ran, str) or ran.late:
        return ran if isinstance(ran, str) else "its execution takes too long", VerdictStatus.UNKNOWN
    last = (ran.output.strip().splitlines() or [""])[-1][:500]
    if ran.code in {whole.FAULT, whole.NOT_EXECUTED}:
        found = VerdictStatus.REJECTED if ran.code == whole.FAULT else VerdictStatus.UNKNOWN
        return f"stopped where it is executed: {last}", found
    return (
        (f"exit code {ran.code}: {last}", VerdictStatus.REJECTED)
        if ran.code
        else ("", VerdictStatus.ACCEPTED)
    )


def fault_of_program(suite: ProgramForm, data: Path, problem: SuiteProblem, device: str) -> str:
    """Say why a problem cannot be judged by: its own program does not build, or fails its tests; empty if it can."""
    program = suite.program(data, problem)
    if not program.original or not program.tests:
        return "it comes without a program of its own" if program.tests else "it comes without tests"
    executed = _executed(program, device)
    with built(program.build, {**program.files, **program.original}, executed=executed) as original:
        if original.failure:
            return f"its own program does not build: {original.failure}"
        if executed:
            runs = (
                original.refusal or original.run(executed, t.stdin, EXECUTED_S, program.settings)
                for t in program.tests
            )
            said = [_where_executed(ran)[0] for ran in runs]
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
    """Return our verdict: exact on the tests, right on other inputs, then faster in pairs."""
    draw = random.Random()
    for test in program.tests:
        first, second = (mine.run(program.command, test.stdin, program.limit_s) for _ in range(2))
        if said := _differs(first, test) or (_LATE if second.late else ""):
            if said == _LATE and not _hangs(program, mine, original, test):
                return _undecided(_BUSY)
            return _ours(VerdictStatus.REJECTED, said, "tests")
        if test.expected is not None and first.output != second.output:
            return _ours(
                VerdictStatus.REJECTED, "it prints something else when it is run again", "repeatable"
            )
    if all(test.expected is not None for test in program.tests):
        refused = _on_other_inputs(program, mine, original, draw)
        if refused is not None:
            return refused
    elif any(test.expected is None for test in program.tests):
        return _undecided(_BY_ITSELF)
    return _timed(program, mine, original, draw)


def _hangs(program: Program, mine: Built, original: Built, test: Trial) -> bool:
    """Tell whether a program that was late is late again, where the original is not: a busy machine makes both late."""
    late, plain = (one.run(program.command, test.stdin, program.limit_s).late for one in (mine, original))
    return late and not plain


def _differs(ran: Ran, test: Trial) -> str:
    if ran.late or ran.code:
        return _LATE if ran.late else f"exit code {ran.code}: {ran.output[-200:]}"
    return "" if test.expected is None or equal(ran.output, test.expected) else "a wrong answer on a test"


def equal(output: str, expected: str) -> bool:
    """Compare word by word: numbers with a point to 1e-6, all else exactly.

    Example:
        >>> equal("0.3333333 x\\n", "0.333333333 x"), equal("1 2", "1 2 3"), equal("1", "2")
        (True, False, False)
    """
    mine, right = output.split(), expected.split()
    return len(mine) == len(right) and all(a == b or _near(a, b) for a, b in zip(mine, right, strict=True))


def _near(mine: str, right: str) -> bool:
    if "." not in right:
        return False
    try:
        a, b = float(mine), float(right)
    except ValueError:
        return False
    return abs(a - b) <= 1e-6 * max(1.0, abs(b))


def _on_other_inputs(program: Program, mine: Built, original: Built, draw: random.Random) -> Ours | None:
    """Compare with the original on inputs that no test has; None if they agree and enough of them tell.

    An input tells if its answer is another one than that of the test that it was made of: a program that knows the
    tests by heart is wrong there.
    """
    agreed, telling, right = [], 0, [test.expected or "" for test in program.tests]
    with original.checked() as checked:
        for base, text in others_like([test.stdin for test in program.tests], draw, _TRIED_INPUTS):
            runs = [one.run(program.command, text, program.limit_s) for one in (original, checked)]
            if any(ran.late or ran.code for ran in runs) or not equal(runs[0].output, runs[1].output):
                continue
            if equal(runs[0].output, right[base]):
                continue
            ran = mine.run(program.command, text, program.limit_s)
            agreed.append(not ran.late and not ran.code and equal(ran.output, runs[0].output))
            telling += 1
            if telling == _OTHER_INPUTS:
                break
    if telling < _LEAST_INPUTS:
        return _undecided(f"only {telling} inputs with answers besides the tests' could be made")
    if not any(agreed):
        reason = f"it agrees with the original program on none of {telling} inputs that no test has"
        return _ours(VerdictStatus.REJECTED, reason, "other-inputs")
    if not all(agreed):
        return _undecided(
            f"it differs from the original program on {agreed.count(False)} of {telling} inputs that no test has, "
            "which may not be ones that the problem allows"
        )
    return None


def _timed(program: Program, mine: Built, original: Built, draw: random.Random) -> Ours:
    least, contract = Contract().least_effect, Contract()
    heavy = sorted(
        program.tests,
        key=lambda test: -original.run(program.command, test.stdin, program.limit_s).wall_s,
    )[:_TIMED_TESTS]
    inputs = [test.stdin for test in heavy]
    series = []
    for _ in range(2):
        found = gains_of(program, mine, original, inputs, _PAIRS, draw, contract.confidence)
        series.append(found)
        if not found.at_least > 1 + least:
            break
    found = series[0]
    if all(one.at_least > 1 + least for one in series):
        return _decided(DecisionStatus.IMPROVED, "right and faster, twice", found)
    if found.at_least > 1 + least:
        return _decided(DecisionStatus.INCONCLUSIVE, "faster once, but not a second time", found)
    if found.at_most < 1:
        return _decided(DecisionStatus.SLOWER, "right and slower", found)
    if found.at_most < 1 + least:
        return _decided(DecisionStatus.EQUAL, "right, and no gain worth having", found)
    return _decided(DecisionStatus.INCONCLUSIVE, "right; its speed is not decided", found)


def _decided(decision: DecisionStatus, reason: str, speedup: Interval) -> Ours:
    return Ours(verdict=VerdictStatus.ACCEPTED, decision=decision, reason=reason, speedup=speedup)


def _ours(verdict: VerdictStatus, reason: str, check: str) -> Ours:
    return Ours(verdict=verdict, decision=DecisionStatus.REJECTED, reason=reason, failed=(check,))


def _undecided(reason: str) -> Ours:
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason)
