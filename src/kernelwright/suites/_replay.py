"""A program whose harness tells by its exit code → what its kernels answer to calls that the judge makes.

The harness's calls of the original are kept, with what they were given. They are made again by programs that hold the
candidate and no harness, and that tell nothing but what was left in memory: on what the harness gives, and on other
values and smaller sizes, for which the original's answers are the right ones where it is not at fault itself. So
nothing is gained by ending early, by knowing the harness, or by changing what compares.

Covers: functions and kernels that the harness calls with numbers, structures and pointers into the device's memory.
Does not cover: arguments in the host's memory, of which nobody knows the size; calls that are larger than 256 kB;
larger sizes than the harness's.
"""

import random
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from ..executor import whole
from ..executor._cudart import ptx_of
from ..records import DecisionStatus, VerdictStatus
from ._host_half import FLAGS, departs
from ._kept_calls import Answer, Argument, Call, answers_in, calls_in, distance, floats_of, others_of
from ._program_runs import Built, Ran, built
from ._records import Ours

_HOST = Path(__file__).parent / "host"
_UNIT, _OBJECT, _MAIN, _SCRIPT = "kw_unit.cu", "kw_unit.o", "kw_replay.cu", "kw_build.sh"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINED = re.compile(r'^([\w\s*&:<>,"]*?\b(\w+)\s*\([^(){};]*\))\s*\{', re.MULTILINE)
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*\)")
_WORDS = frozenset({"if", "while", "switch", "catch", "main"})
_BEFORE_A_CALL = re.compile(r"(?:[;{}(,=!&|?]|[^:]:|\b(?:return|else))\s*$")
_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_LOOKS = re.compile(r"%(?:clock\w*|globaltimer\w*|n?smid|n?warpid|gridid|envreg\d+|pm\d+)\b")
_TRIED, _LEAST, _FAULTS, _REPLAY_S = 24, 4, 2, 300.0
_SCRIPT_TEXT = """set -e
for word in "$@"; do case "$word" in -shared|*.so) ;; *) made="$made $word" ;; esac; done
nvcc {flags} $made {more} -Xcompiler {host} -c -o {object} {unit}
objcopy --redefine-sym cudaMemcpy=replay_cudaMemcpy --redefine-sym cudaMemcpyAsync=replay_cudaMemcpyAsync {object}
exec nvcc {flags} {more} -o replay {main} {sources} {object} "$@"
"""
UNTIMED = "right where it is executed, on the harness's calls and {} others; nothing here can time it"


_LOOP = """
int main() {
  replay::Calls calls;
  while (calls.next()) {
    if (calls.name.empty()) return 1;
%s
    else return 2;
  }
  return 0;
}
"""


class Keeps(Protocol):
    """Runs a program whose harness prints its calls."""

    def __call__(self, files: Mapping[str, str]) -> str:
        """Return what it printed; nothing if it could not be built or run."""


def judged_by_calls(
    build: str, files: Mapping[str, str], path: str, own: str, text: str, keeps: Keeps
) -> Ours:
    """Return our verdict on a program that ended as its harness wants.

    Args:
        build: The command that builds it.
        files: What is there besides the program.
        path: The program's own path.
        own: The text of the benchmark's own.
        text: The candidate's.
        keeps: Runs the original with its harness, so that calls are kept.
    """
    names = called_of(files, path, own)
    if not names:
        return _unknown("its harness calls nothing of it by name")
    calls = calls_in(keeps({**keeping(files, path, names), path: own}))
    if not calls:
        return _unknown(
            "no call of its harness can be kept: with pointers into the device's memory, up to 256 kB"
        )
    with ExitStack() as stack:
        right, mine = (stack.enter_context(_replayed(build, files, path, own, one)) for one in (own, text))
        for one, whose in ((right, "the original"), (mine, "it")):
            if said := one.failure.strip()[-300:] or one.refusal:
                return _unknown(f"{whose} does not build without its harness: {said}")
        found = _on_calls(mine, right, calls)
        if found.verdict is not VerdictStatus.ACCEPTED:
            return found
        if more := departs(mine.home / _OBJECT) or _looks_around(mine, right):
            return _unknown(
                f"right where it is executed; {more}, so that it may do something else on a device"
            )
    return _unoptimised(build, files, path, own, text, calls) or found


def called_of(files: Mapping[str, str], path: str, own: str) -> dict[str, str]:
    """Return what a harness calls or launches of a program, with its declaration.

    Example:
        >>> called_of({"t.cu": "int main() { f(1); }"}, "k.cu", "void g() {}\\nvoid f(int x) { g(); }")
        {'f': 'void f(int x)'}
    """
    defined = dict(_definitions(own))
    harness = {where: _COMMENT.sub(" ", text) for where, text in files.items() if where != path}
    taken = {name for text in harness.values() for name, _ in _definitions(text)}
    made = {n: d for n, d in defined.items() if n not in taken | _WORDS}
    return {n: d for n, d in made.items() if any(_renamed(t, n) != t for t in harness.values())}


def _definitions(text: str) -> Iterator[tuple[str, str]]:
    for found in _DEFINED.finditer(_BOUNDS.sub(" ", _COMMENT.sub(" ", text))):
        if "static" not in found[1]:
            yield found[2], " ".join(found[1].split())


def keeping(files: Mapping[str, str], path: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a harness that prints its calls of those names."""
    made = dict(files)
    for where, text in files.items():
        new = text
        for name in names if where.endswith((".cu", ".cpp")) and where != path else ():
            new = _renamed(new, name)
        if new != text:
            made[where] = _after_includes(new, '#include "kept_calls.h"')
    return made | {"kept_calls.h": (_HOST / "kept_calls.h").read_text()}


def _renamed(text: str, name: str) -> str:
    """Have a harness's calls and launches of a name kept.

    Example:
        >>> _renamed("void f(int); int main() { f(1); g<<<1, 2>>>(); }", "f")
        'void f(int); int main() { kept::call("f", &f)(1); g<<<1, 2>>>(); }'
        >>> _renamed("int main() { g <<<1, 2>>>(); }", "g")
        'int main() { kept::launch("g", &g, 1, 2)(); }'
    """
    new = re.sub(rf"\b{name}\s*<<<(.*?)>>>", rf'kept::launch("{name}", &{name}, \1)', text, flags=re.DOTALL)
    pieces, at = [], 0
    for found in re.finditer(rf"\b{name}\s*\(", new):
        if _BEFORE_A_CALL.search(new[max(0, found.start() - 200) : found.start()]):
            pieces += [new[at : found.start()], f'kept::call("{name}", &{name})(']
            at = found.end()
    return "".join([*pieces, new[at:]])


def _after_includes(text: str, line: str) -> str:
    last = max((found.end() for found in _INCLUDES.finditer(text)), default=0)
    return f"{text[:last]}\n{line}\n{text[last:]}"


@contextmanager
def _replayed(
    build: str, files: Mapping[str, str], path: str, own: str, text: str, more: str = ""
) -> Iterator[Built]:
    """Build what makes a program's calls again."""
    flags, sources = _words_of(build, files, path)
    names = called_of(files, path, own)
    harness = [t for where, t in files.items() if where.endswith((".cu", ".cpp")) and _renames(t, names)]
    includes = [i for t in harness for i in _INCLUDES.findall(t) if f'"{path}"' not in i]
    inside = any(f'"{path}"' in t for t in harness)
    declared = "\n".join([*includes, *(f"{d};" for d in names.values())])
    launched = {n for n in names if any(re.search(rf"\b{n}\s*<<<", t) for t in harness)}
    branches = "\n".join(
        f'    else if (calls.name == "{n}") calls.{"launch" if n in launched else "call"}(&{n});'
        for n in names
    )
    made = {
        "replay.h": (_HOST / "replay.h").read_text(),
        _MAIN: f"#include \"replay.h\"\n{declared}\n{_LOOP % branches}",
        _UNIT: f'#include <cuda_runtime.h>\n{declared if inside else ""}\n#include "{path}"\n',
        _SCRIPT: _SCRIPT_TEXT.format(
            flags=shlex.join(flags), more=more, host=FLAGS, object=_OBJECT, unit=_UNIT, main=_MAIN,
            sources=shlex.join(sources),
        ),
    }  # fmt: skip
    with built(f"sh {_SCRIPT}", {**files, path: text, **made}, executed="replay") as one:
        yield one


def _renames(text: str, names: Mapping[str, str]) -> bool:
    return any(_renamed(text, name) != text for name in names)


def _words_of(build: str, files: Mapping[str, str], path: str) -> tuple[list[str], list[str]]:
    """Return a build command's flags, and its sources besides the program and what has a `main`.

    Example:
        >>> _words_of("nvcc -I include -o t s.cu h.cu test/*.cu", {"h.cu": "", "test/a.cu": "int main() {}"}, "s.cu")
        (['-I', '.', '-I', 'include'], ['h.cu'])
    """
    words, flags, sources = shlex.split(build)[1:], ["-I", "."], list[str]()
    for at, word in enumerate(words):
        if word.endswith((".cu", ".cpp")):
            sources += [f for f in files if fnmatch(f, word) and f != path and f not in sources]
        elif word != "-o" and words[at - 1] != "-o":
            flags.append(word)
    return flags, [f for f in sources if not re.search(r"\bmain\s*\(", files[f])]


def _on_calls(mine: Built, right: Built, calls: Sequence[Call]) -> Ours:
    """Compare two programs on a harness's calls and on others."""
    truth, _ = _answers(right, calls)
    calls = calls[: len(truth)]
    if not calls:
        return _unknown("the original does not answer its harness's calls when they are made again")
    others = _others(right, calls, truth)
    asked = [*calls, *(call for call, _ in others), calls[0]]
    expected = [*truth, *(answer for _, answer in others), truth[0]]
    found, ran = _answers(mine, asked)
    if len(found) < len(calls):
        if ran.code == whole.FAULT:
            return _refused("sanitised", _last(ran))
        return _unknown(f"it does not answer its harness's calls when they are made again: {_last(ran)}")
    for call, answer, wanted in zip(calls, found, truth, strict=False):
        if said := _wrong(call, answer, wanted):
            return said
    rest = zip(
        asked[len(calls) :],
        [*found[len(calls) :], *[None] * len(asked)],
        expected[len(calls) :],
        strict=False,
    )
    differing = [c.kind for c, got, wanted in rest if got is None or _apart(c, got, wanted) != "same"]
    if len(others) < _LEAST:
        return _unknown(f"only {len(others)} calls with other answers than its harness's could be made")
    if len(differing) > len(others) and len(found) == len(asked):
        reason = f"it agrees with the original on none of {len(others)} calls that its harness does not make"
        return _refused("other-inputs", reason)
    if differing:
        kinds = ", ".join(dict.fromkeys(differing))
        return _unknown(
            f"it differs from the original on {len(differing)} of {len(others)} calls that its harness does not make "
            f"({kinds}), which may not be ones that the problem allows"
        )
    if ran.output.count("\nto-host\n"):
        return _unknown("it copies from the device to the host, which may compute what it answers")
    reason = UNTIMED.format(len(others))
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
            return _refused("inputs-unchanged", f"it changes what {call.name} is given to read alone")
    apart = _apart(call, answer, wanted)
    if apart == "other":
        return _refused(
            "correct", f"what {call.name} leaves is further from the original's than rounding takes it"
        )
    if apart == "unlike":
        return _unknown(
            f"what {call.name} leaves is not what the original leaves, and its harness takes both"
        )
    if apart == "near":
        reason = f"what {call.name} leaves is further from the original's than one rounding takes it"
        return _unknown(f"{reason}; which of the two is nearer to the truth is not known")
    return None


def _apart(call: Call, answer: Answer, wanted: Answer) -> str:
    """Return how far apart two answers are: `same`, `near`, `other`, or `unlike` where they are no floats."""
    if answer.returned != wanted.returned or len(answer.memories) != len(wanted.memories):
        return "unlike"
    found = {"same"}
    for n, (mine, right) in enumerate(zip(answer.memories, wanted.memories, strict=True)):
        element = call.element(n)
        apart = distance(mine, right, element)
        found.add("unlike" if apart == "other" and element.type not in "fdhb" else apart)
    return next(one for one in ("other", "unlike", "near", "same") if one in found)


def _looks_around(mine: Built, right: Built) -> str:
    """Say what a program's kernels read of the device that the original's do not; empty if nothing."""
    seen = [{r for ptx in ptx_of(one.home / "replay") for r in _LOOKS.findall(ptx)} for one in (mine, right)]
    more = sorted(seen[0] - seen[1])
    return f"its kernels read {', '.join(more)}" if more else ""


def _unoptimised(
    build: str, files: Mapping[str, str], path: str, own: str, text: str, calls: Sequence[Call]
) -> Ours | None:
    """Execute kernels as they are written, since compilers leave out reads of no value; nothing if no fault shows."""
    said = ""
    for one in (text, own):
        with _replayed(build, files, path, own, one, "-Xcicc -O0") as plain:
            if plain.failure or plain.refusal:
                return _unknown("its kernels are not executed as they are written, with no optimisation")
            least = min(calls, key=lambda call: sum(map(len, call.memories)))
            found, ran = _answers(plain, [least])
        if found or (one is own and ran.code == whole.FAULT):
            return _refused("sanitised", said) if one is own and found else None
        said = _last(ran)
        if ran.code != whole.FAULT:
            return _unknown(f"its kernels are not executed as they are written: {said}")
    return None


def _answers(program: Built, calls: Sequence[Call]) -> tuple[list[Answer], Ran]:
    ran = program.run("replay", "".join(call.text() for call in calls), _REPLAY_S)
    return answers_in(ran.output), ran


def _last(ran: Ran) -> str:
    if ran.late:
        return "it takes too long"
    lines = [
        line
        for line in ran.output.splitlines()
        if len(line) > 2 and not line.startswith((whole.RETURNED, "o "))
    ]
    return lines[-1][:400] if lines else f"exit code {ran.code}"


def _refused(check: str, reason: str) -> Ours:
    return Ours(
        verdict=VerdictStatus.REJECTED, decision=DecisionStatus.REJECTED, reason=reason, failed=(check,)
    )


def _unknown(reason: str) -> Ours:
    return Ours(verdict=VerdictStatus.UNKNOWN, decision=DecisionStatus.UNKNOWN, reason=reason)
