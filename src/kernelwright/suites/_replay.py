"""A program and its harness → texts that keep the harness's calls, and a program that makes them again without it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from ._host_half import FLAGS
from ._program_runs import Built, built

_HOST = Path(__file__).parent / "host"
_UNIT, _MAIN, _SCRIPT = "kw_unit.cu", "kw_replay.cu", "kw_build.sh"
OBJECT, PROGRAM = "kw_unit.o", "replay"
"""The candidate's object, and what makes its calls again."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINED = re.compile(r'^([\w\s*&:<>,"]*?\b(\w+)\s*\([^(){};]*\))\s*\{', re.MULTILINE)
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*\)")
_WORDS = frozenset({"if", "while", "switch", "catch", "main"})
_BEFORE_A_CALL = re.compile(r"(?:[;{}(,=!&|?]|[^:]:|\b(?:return|else))\s*$")
_INCLUDES = re.compile(r"^[ \t]*#[ \t]*include[^\n]*$", re.MULTILINE)
_SCRIPT_TEXT = """set -e
for word in "$@"; do case "$word" in -shared|*.so) ;; *) made="$made $word" ;; esac; done
nvcc {flags} $made {more} -Xcompiler {host} -c -o {object} {unit}
objcopy --redefine-sym cudaMemcpy=replay_cudaMemcpy --redefine-sym cudaMemcpyAsync=replay_cudaMemcpyAsync {object}
exec nvcc {flags} {more} -o replay {main} {sources} {object} "$@"
"""
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


def calls_original(files: Mapping[str, str], path: str, own: str, text: str) -> str:
    """Say which function of its harness a program calls that launches kernels; empty if none.

    A harness has the original to compare with, which the program that is compared is not to answer by.

    Example:
        >>> harness = {"t.cu": "void first(int* x) { k<<<1, 1>>>(x); }\\nint main() { first(x); f(x); }"}
        >>> calls_original(harness, "k.cu", "void f(int* x) {}", "void f(int* x) { // first(x)\\n  first(x); }")
        'its line 2 calls first, the original that its harness compares it with'
    """
    plain, known = _blank(text), _blank(own)
    for where, harness in files.items():
        bodies = _blank(harness)
        if where == path or not re.search(r"\bmain\s*\(", bodies):
            continue
        for found in _DEFINED.finditer(bodies):
            name, used = found[2], re.compile(rf"\b{found[2]}\s*\(")
            launches = "<<<" in _body(bodies, found.end() - 1)
            called = next(
                (m for m in used.finditer(plain) if _BEFORE_A_CALL.search(plain[: m.start()])), None
            )
            if launches and called and name not in _WORDS and not used.search(known):
                line = plain.count("\n", 0, called.start()) + 1
                return f"its line {line} calls {name}, the original that its harness compares it with"
    return ""


def _blank(text: str) -> str:
    """Blank comments, and keep lines."""
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _body(text: str, brace: int) -> str:
    """Return what lies between a brace and the one that closes it."""
    depth = 0
    for at in range(brace, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if not depth:
            return text[brace:at]
    return text[brace:]


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
        >>> _renamed("int main() { cudaLaunchKernel((void*)g, 1, 2, args); }", "g")
        'int main() { kept::launch_by("g", &g, 1, 2, args); }'
    """
    text = _by_address(name).sub(f'kept::launch_by("{name}", &{name},', text)
    new = re.sub(rf"\b{name}\s*<<<(.*?)>>>", rf'kept::launch("{name}", &{name}, \1)', text, flags=re.DOTALL)
    pieces, at = [], 0
    for found in re.finditer(rf"\b{name}\s*\(", new):
        if _BEFORE_A_CALL.search(new[max(0, found.start() - 200) : found.start()]):
            pieces += [new[at : found.start()], f'kept::call("{name}", &{name})(']
            at = found.end()
    return "".join([*pieces, new[at:]])


def _by_address(name: str) -> re.Pattern[str]:
    """Match the begin of a launch of a kernel by its address."""
    return re.compile(rf"\bcudaLaunchKernel\s*\(\s*(?:\(\s*(?:const\s+)?void\s*\*\s*\)\s*)?&?\s*{name}\s*,")


def _after_includes(text: str, line: str) -> str:
    last = max((found.end() for found in _INCLUDES.finditer(text)), default=0)
    return f"{text[:last]}\n{line}\n{text[last:]}"


@contextmanager
def replayed(
    build: str, files: Mapping[str, str], path: str, own: str, text: str, more: str = ""
) -> Iterator[Built]:
    """Build what makes a program's calls again."""
    flags, sources = _words_of(build, files, path)
    names = called_of(files, path, own)
    harness = [t for where, t in files.items() if where.endswith((".cu", ".cpp")) and _renames(t, names)]
    includes = [i for t in harness for i in _INCLUDES.findall(t) if f'"{path}"' not in i]
    inside = any(f'"{path}"' in t for t in harness)
    declared = "\n".join([*includes, *(f"{d};" for d in names.values())])
    launched = {
        n for n in names if any(re.search(rf"\b{n}\s*<<<", t) or _by_address(n).search(t) for t in harness)
    }
    branches = "\n".join(
        f'    else if (calls.name == "{n}") calls.{"launch" if n in launched else "call"}(&{n});'
        for n in names
    )
    made = {
        "replay.h": (_HOST / "replay.h").read_text(),
        _MAIN: f"#include \"replay.h\"\n{declared}\n{_LOOP % branches}",
        _UNIT: f'#include <cuda_runtime.h>\n{declared if inside else ""}\n#include "{path}"\n',
        _SCRIPT: _SCRIPT_TEXT.format(
            flags=shlex.join(flags), more=more, host=FLAGS, object=OBJECT, unit=_UNIT, main=_MAIN,
            sources=shlex.join(sources),
        ),
    }  # fmt: skip
    with built(f"sh {_SCRIPT}", {**files, path: text, **made}, executed=PROGRAM) as one:
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
