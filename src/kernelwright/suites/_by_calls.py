"""A program whose harness tells by its exit code → what its kernels answer to calls that the judge makes.

The harness's calls of the original are kept, with what they were given. They are made again by programs that hold the
candidate and no harness, and that tell nothing but what was left in memory: on what the harness gives, and on other
values and smaller sizes, for which the original's answers are the right ones where it is not at fault itself. So
nothing is gained by ending early, by knowing the harness, or by changing what compares.

Covers: functions and kernels that the harness calls with numbers, structures and pointers into the device's memory.
Does not cover: arguments in the host's memory, of which nobody knows the size; calls that are larger than 256 kB;
larger sizes than the harness's.
"""

import functools
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..executor import whole
from ..executor._cudart import ptx_of
from ..records import DecisionStatus, VerdictStatus
from ._call_faults import Compared, Replay, copied_from_host, fault_on_others, writes_nothing
from ._host_half import departs
from ._kept_calls import Answer, Argument, Call, answers_in, apart, calls_in, floats_of, others_of
from ._program_runs import Built, Ran, built
from ._records import Ours
from ._replay import OBJECT, PROGRAM, called_of, calls_original, keeping, replayed
from ._shared_reads import unwritten_shared
from ._verdicts import refused, unknown

_LOOKS = re.compile(r"%(?:clock\w*|globaltimer\w*|n?smid|n?warpid|gridid|envreg\d+|pm\d+)\b")
_TRIED, _LEAST, _FAULTS, _REPLAY_S = 24, 4, 2, 300.0
_BY_ADDRESS = "cudaLaunchKernel"
_UNTIMED = "right where it is executed, on the harness's calls and {} others; nothing here can time it"


@dataclass(frozen=True)
class Harness:
    """How a program is run with its harness."""

    build: str
    """The command that builds it."""
    command: str
    """The command that runs it."""
    stdin: str
    """What it is given."""
    settings: str
    """Variables, as a shell has them."""
    limit_s: float
    """Most seconds of a run."""


@functools.lru_cache(4)
def _kept(how: Harness, files: tuple[tuple[str, str], ...]) -> str:
    """Return what a program prints whose harness prints its calls; nothing if it cannot be built or run."""
    with built(f"{how.build} -I .", dict(files), executed=how.command) as one:
        if one.failure or one.refusal:
            return ""
        return one.run(how.command, how.stdin, how.limit_s, how.settings).output


def judged_by_calls(how: Harness, files: Mapping[str, str], path: str, own: str, text: str) -> Ours:
    """Return our verdict on a program that ended as its harness wants.

    Args:
        how: Runs it with its harness.
        files: What is there besides the program.
        path: The program's own path.
        own: The text of the benchmark's own.
        text: The candidate's.
    """
    names = called_of(files, path, own)
    if not names:
        how_else = (
            " but by an address that it works out, whose arguments have no types"
            if _BY_ADDRESS in "".join(files.values())
            else ""
        )
        return unknown(f"its harness calls nothing of it by name{how_else}")
    if said := calls_original(files, path, own, text):
        return refused("harness", said)
    calls = calls_in(_kept(how, tuple({**keeping(files, path, names), path: own}.items())))
    if not calls:
        return unknown(
            "no call of its harness can be kept: with pointers into the device's memory, up to 256 kB"
        )
    with ExitStack() as stack:
        right, mine = (stack.enter_context(replayed(how.build, files, path, own, one)) for one in (own, text))
        for one, whose in ((right, "the original"), (mine, "it")):
            if said := one.failure.strip()[-300:] or one.refusal:
                return unknown(f"{whose} does not build without its harness: {said}")
        found = _on_calls(mine, right, calls)
        if found.verdict is not VerdictStatus.ACCEPTED:
            return found
        if more := departs(mine.home / OBJECT) or _looks_around(mine, right):
            return unknown(
                f"right where it is executed; {more}, so that it may do something else on a device"
            )
    return _unoptimised(how.build, files, path, own, text, calls) or found


def _on_calls(mine: Built, right: Built, calls: Sequence[Call]) -> Ours:
    """Compare two programs on a harness's calls and on others."""
    truth, _ = _answers(right, calls)
    calls = calls[: len(truth)]
    if not calls:
        return unknown("the original does not answer its harness's calls when they are made again")
    others = _others(right, calls, truth)
    asked = [*calls, *(call for call, _ in others), calls[0]]
    expected = [*truth, *(answer for _, answer in others), truth[0]]
    found, ran = _answers(mine, asked)
    if len(found) < len(calls):
        if ran.code == whole.FAULT:
            return refused("sanitised", _last(ran))
        return unknown(f"it does not answer its harness's calls when they are made again: {_last(ran)}")
    for call, answer, wanted in zip(calls, found, truth, strict=False):
        if said := _wrong(call, answer, wanted):
            return said
    if copied := copied_from_host(calls, found[: len(calls)], truth):
        return refused("on-the-host", copied)
    rest = zip(
        asked[len(calls) :],
        expected[len(calls) :],
        [*found[len(calls) :], *[None] * len(asked)],
        strict=False,
    )
    made = [Compared(*one) for one in rest]
    differing = [one.call.kind for one in made if not one.agrees]
    if len(others) < _LEAST:
        return unknown(f"only {len(others)} calls with other answers than its harness's could be made")
    if len(differing) > len(others) and len(found) == len(asked):
        reason = f"it agrees with the original on none of {len(others)} calls that its harness does not make"
        return refused("other-inputs", reason)
    if differing:
        fault = fault_on_others(_asked(mine), _asked(right), calls, made[:-1], np.random.default_rng())
        if fault:
            return refused("other-inputs", fault)
        kinds = ", ".join(dict.fromkeys(differing))
        return unknown(
            f"it differs from the original on {len(differing)} of {len(others)} calls that its harness does not make "
            f"({kinds}), which may not be ones that the problem allows"
        )
    if ran.output.count("\nto-host\n"):
        return unknown("it copies from the device to the host, which may compute what it answers")
    reason = _UNTIMED.format(len(others))
    return Ours(verdict=VerdictStatus.ACCEPTED, decision=DecisionStatus.UNKNOWN, reason=reason)


def _others(right: Built, calls: Sequence[Call], truth: Sequence[Answer]) -> list[tuple[Call, Answer]]:
    """Return calls that the original answers without a fault, and otherwise than those that they are made of."""
    draw = random.Random()
    least: dict[str, int] = {}
    for n in sorted(range(len(calls)), key=lambda n: sum(map(len, calls[n].memories))):
        least.setdefault(calls[n].name, n)
    drawn = [
        (call, truth[n])
        for n in least.values()
        for call in islice(others_of(calls[n], draw), max(_TRIED // len(least), _LEAST * 2))
    ]
    made, faults = list[tuple[Call, Answer]](), list[str]()
    while drawn:
        found, ran = _answers(right, [call for call, _ in drawn])
        made += [
            (call, answer)
            for (call, base), answer in zip(drawn, found, strict=False)
            if _tells(call, answer, base)
        ]
        if len(found) >= len(drawn) or ran.late:
            break
        faults.append(drawn[len(found)][0].kind)
        drawn = [d for d in drawn[len(found) + 1 :] if faults.count(d[0].kind) < _FAULTS]
    return made


def _tells(call: Call, answer: Answer, base: Answer) -> bool:
    """Tell whether the original answers otherwise than on the harness's call, and anything by a number."""
    return any(
        after not in (before, given) and _has_numbers(after, call.element(n))
        for n, (after, before, given) in enumerate(
            zip(answer.memories, base.memories, call.memories, strict=True)
        )
    )


def _has_numbers(memory: bytes, element: Argument) -> bool:
    values = floats_of(memory, element)
    return values is None or bool(np.isfinite(values).any())


def _wrong(call: Call, answer: Answer, wanted: Answer) -> Ours | None:
    """Say what is wrong of an answer to a harness's call, or cannot be told; nothing if it is right."""
    for n, memory in enumerate(call.memories):
        kept = wanted.memories[n] == memory
        only_read = all(a.const for a in call.arguments if a.memory == n)
        if kept and only_read and answer.memories[n] != memory:
            return refused("inputs-unchanged", f"it changes what {call.name} is given to read alone")
    how = apart(call, answer, wanted)
    if how == "other" and apart(call, _where_written(call, answer, wanted), wanted) == "other":
        return refused(
            "correct", f"what {call.name} leaves is further from the original's than rounding takes it"
        )
    if how == "other":
        return unknown(f"{call.name} writes where the original writes nothing, and its harness takes both")
    if how == "unlike" and writes_nothing(call, answer, wanted):
        reason = f"without its harness it leaves all that {call.name} has to change as it was given"
        return refused("correct", reason)
    if how == "unlike":
        return unknown(f"what {call.name} leaves is not what the original leaves, and its harness takes both")
    if how == "near":
        reason = f"what {call.name} leaves is further from the original's than one rounding takes it"
        return unknown(f"{reason}; which of the two is nearer to the truth is not known")
    return None


def _where_written(call: Call, answer: Answer, wanted: Answer) -> Answer:
    """Return an answer with what it was given, where the original leaves that."""
    memories = []
    for n, given in enumerate(call.memories):
        size = call.element(n).size
        end = len(given) // size * size
        mine, right, before = (
            np.frombuffer(m[:end], np.uint8).reshape(-1, size)
            for m in (answer.memories[n], wanted.memories[n], given)
        )
        kept = (right == before).all(axis=1, keepdims=True)
        memories.append(np.where(kept, right, mine).tobytes() + wanted.memories[n][end:])
    return Answer(tuple(memories), answer.returned)


def _looks_around(mine: Built, right: Built) -> str:
    """Say what a program's kernels read of the device that the original's do not; empty if nothing."""
    seen = [{r for ptx in ptx_of(one.home / PROGRAM) for r in _LOOKS.findall(ptx)} for one in (mine, right)]
    more = sorted(seen[0] - seen[1])
    return f"its kernels read {', '.join(more)}" if more else ""


def _unoptimised(
    build: str, files: Mapping[str, str], path: str, own: str, text: str, calls: Sequence[Call]
) -> Ours | None:
    """Execute kernels as they are written, since compilers leave out reads of no value; nothing if no fault shows."""
    said = ""
    for one in (text, own):
        with replayed(build, files, path, own, one, "-Xcicc -O0") as plain:
            if plain.failure or plain.refusal:
                return unknown("its kernels are not executed as they are written, with no optimisation")
            unwritten = next(filter(None, map(unwritten_shared, ptx_of(plain.home / PROGRAM))), "")
            if unwritten and one is text:
                return refused("sanitised", f"it reads shared memory that nothing writes: {unwritten}")
            least = min(calls, key=lambda call: sum(map(len, call.memories)))
            found, ran = _answers(plain, [least])
        if found or (one is own and ran.code == whole.FAULT):
            return refused("sanitised", said) if one is own and found else None
        said = _last(ran)
        if ran.code != whole.FAULT:
            return unknown(f"its kernels are not executed as they are written: {said}")
    return None


def _answers(program: Built, calls: Sequence[Call]) -> tuple[list[Answer], Ran]:
    ran = program.run(PROGRAM, "".join(call.text() for call in calls), _REPLAY_S)
    return answers_in(ran.output), ran


def _asked(program: Built) -> Replay:
    return Replay(lambda calls: _answers(program, calls)[0], lambda: ptx_of(program.home / PROGRAM))


def _last(ran: Ran) -> str:
    if ran.late:
        return "it takes too long"
    lines = [
        line
        for line in ran.output.splitlines()
        if len(line) > 2 and not line.startswith((whole.RETURNED, "o "))
    ]
    return lines[-1][:400] if lines else f"exit code {ran.code}"
