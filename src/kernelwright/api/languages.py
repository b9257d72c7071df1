"""What each language reaches on each target: timed, sanitised, executed or compiled; here, and where it was last so.

Languages, devices, runs ─▶ rows. What a run shows comes from its records alone, so every row can be followed to them.

| state | what the records must hold |
|---|---|
| `timed` | raw blocks of the candidate on a device of the target |
| `sanitised` | the check `sanitised` passed: its PTX was executed and nothing was found |
| `executed` | its calls were executed without the device and answered |
| `compiled` | the compiler's facts of that target |
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from ..devices import Device, devices
from ..errors import InputError
from ..languages import executed_on, executes, get_language, language_names
from ..records import BuildStatus, Evaluation, Record, Run
from ..store import Store

__all__ = [
    "ABSENT",
    "ASKED",
    "Seen",
    "State",
    "here",
    "latest",
    "read_evidence",
    "seen_in",
    "targets_of",
    "write_evidence",
]

State = Literal["timed", "sanitised", "executed", "compiled", "not here"]
STATES: tuple[State, ...] = ("timed", "sanitised", "executed", "compiled", "not here")
"""From the most that can be known of a kernel to the least."""
ASKED: Final = {"cuda": ("sm_80", "sm_90", "sm_100", "sm_120"), "triton": ("sm_120", "gfx90a", "gfx950")}
"""Targets that a source may ask for beyond those of every build; it is compiled for them."""
ABSENT: Final = (
    ("thunderkittens", "sm_90",
     "its headers are in no package; `kernelwright.executor.program.load_program(source, include=[...])` executes its "
     "kernels where they are"),
    ("sycl", "cpu", "no package has a compiler for it"),
    ("triton-ascend", "ascend910b", "it ends in CANN, which is in no registry; language triton executes its kernels"),
)  # fmt: skip
"""Languages without a file of their own, their target, and why."""
_EXECUTED = "sm_90"
"""The target whose PTX the executor runs in the judge."""


class Seen(Record):
    """One state of one language on one target, and the evidence."""

    language: str
    """Its name."""
    target: str
    """`cpu`, `sm_90`, `gfx942`."""
    state: State
    """What was reached."""
    machine: str
    """The device's name where it was reached."""
    when: str = ""
    """UTC, ISO 8601."""
    run: str = ""
    """The run that shows it."""
    candidate: str = ""
    """Key of the candidate that shows it."""


def targets_of(language: str) -> tuple[str, ...]:
    """Return the targets of a language, the CPU where it names none.

    Example:
        >>> targets_of("cpp"), "sm_90" in targets_of("cuda")
        (('cpu',), True)
    """
    return tuple(getattr(get_language(language), "targets", ("cpu",)))


def here() -> list[tuple[str, str, State, str]]:
    """Return language, target, what this machine can reach, and with which tools or why not.

    Targets are those of every build and those that a source may ask for; languages that are nowhere stand at the end.
    """
    present = devices()
    found = [
        (name, target, _here(name, target, present), _tools(name))
        for name in language_names()
        for target in dict.fromkeys((*targets_of(name), *ASKED.get(name, ())))
    ]
    return [*found, *((name, target, STATES[-1], why) for name, target, why in ABSENT)]


def _tools(name: str) -> str:
    found = get_language(name).available()
    return found.what if found.ok or not found.remedy else f"{found.what}; {found.remedy}"


def _here(name: str, target: str, present: list[Device]) -> State:
    language = get_language(name)
    if not language.available().ok:
        return "not here"
    if any(d.target == target and language.timeable(d.kind) for d in present):
        return "timed"
    if target == _EXECUTED and executes(name):
        return "sanitised"
    if target in executed_on(language):
        return "executed"
    return "compiled" if target != "cpu" else "executed"


def seen_in(store: Store) -> Iterator[Seen]:
    """Yield what the runs of a store show, the oldest first."""
    for run in reversed(store.runs()):
        told = next((e for e in store.events(run.id) if e["event"] == "run"), {})
        machine = str(told.get("device") or run.device)
        target = str(told.get("target") or run.device.partition("-")[0])
        for evaluation in store.evaluations(run.id):
            for state, on in _states(evaluation, target):
                yield _seen(run, evaluation, state, on, machine)


def _seen(run: Run, evaluation: Evaluation, state: State, target: str, machine: str) -> Seen:
    return Seen(
        language=evaluation.candidate.language,
        target=target,
        state=state,
        machine=machine,
        when=run.created,
        run=run.id,
        candidate=evaluation.candidate.key,
    )


def _states(evaluation: Evaluation, target: str) -> Iterator[tuple[State, str]]:
    """Yield each state that an evaluation shows, with its target."""
    build, verdict, timing = evaluation.build, evaluation.verdict, evaluation.timing
    if build.status is not BuildStatus.OK:
        return
    for compiled in sorted({name.partition(".")[0] for name in build.evidence if "." in name}):
        yield "compiled", compiled
    passed = {f.check for f in verdict.findings if f.status == "pass"} if verdict else set()
    language = evaluation.candidate.language
    if target == "cpu" and "runs" in passed and language in language_names():
        yield from (("executed", on) for on in executed_on(get_language(language)))
        if language == "cuda":
            yield "executed", _EXECUTED
    if "sanitised" in passed:
        yield "executed", _EXECUTED
        yield "sanitised", _EXECUTED
    if timing is not None and any("candidate" in block.times_us for block in timing.blocks):
        yield "timed", target


def latest(rows: Iterable[Seen]) -> list[Seen]:
    """Keep the newest evidence of each state, language and target; sorted by language, target and state.

    Example:
        >>> old = Seen(language="cpp", target="cpu", state="timed", machine="a", when="2025-01-01")
        >>> [row.machine for row in latest([old, old.model_copy(update={"machine": "b", "when": "2025-02-01"})])]
        ['b']
    """
    found: dict[tuple[str, str, State], Seen] = {}
    for row in sorted(rows, key=lambda row: row.when):
        found[row.language, row.target, row.state] = row
    return sorted(found.values(), key=lambda row: (row.language, row.target, STATES.index(row.state)))


def write_evidence(path: Path, rows: Iterable[Seen]) -> None:
    """Write rows to a file, one a line, which `read_evidence` reads on another machine."""
    path.write_text("".join(f"{row.to_json()}\n" for row in rows))


def read_evidence(path: Path) -> list[Seen]:
    """Read rows from a file.

    Raises:
        InputError: it cannot be read, or a line is no row.
    """
    try:
        return [Seen.from_json(line) for line in path.read_text().splitlines()]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError(
            f"{path} is no file of `kernelwright languages --out`: {error.errors()[0]['msg']}"
        ) from None
