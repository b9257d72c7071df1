"""Forms of single PTX instructions: which ptxas takes, and which of those the executor translates.

    python -m benchmarks.ptx_forms --out rows.jsonl

`executor_kernels/forms.txt.gz` holds forms that were made by putting modifiers, types and operands together in 31,036
ways for sm_90a: `+` those that ptxas 13.0 takes, `-` those that it refuses and the executor's translation alone would
run. Each stands in a kernel of its own. Both lists are put to the ptxas that is here, then each form to the executor.

A row is an opcode. The exit code is 0 where ptxas takes and refuses what the lists say.

Covers: whether a form is translated, or refused by name. Does not cover: what it computes (`tests/executor` does).
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from kernelwright.errors import MissingToolError
from kernelwright.executor import NotExecutedError, PtxError
from kernelwright.executor._layout import Layout
from kernelwright.executor._parser import parse
from kernelwright.executor._ptxas import ptxas
from kernelwright.executor._translate import translate

FORMS = Path(__file__).parent / "executor_kernels" / "forms.txt.gz"
HEAD = """.version 9.0
.target sm_90a
.address_size 64
.global .align 16 .b8 G[64];
.func fun2(.param .u64 z) { ret; }
.func fun(.param .u64 z) { ret; }
"""
REGISTERS = (
    ".reg .b8 %c<4>; .reg .b16 %h<9>; .reg .b32 %r<10>; .reg .b32 %R<128>; .reg .b64 %d<9>; .reg .f32 %f<9>; "
    ".reg .f32 %F<128>; .reg .f64 %g<9>; .reg .pred %p<4>; .reg .b128 %w; .shared .align 128 .b8 s[1024];"
)
BATCH = 200


def entry(number: int, form: str) -> str:
    """Return a kernel of one instruction, which stands in a line of its own."""
    head = f".visible .entry k{number}(.param .u64 x) {{ {REGISTERS} ld.param.u64 %d7, [x]; .param .u64 a0;"
    return f"{head}\n{form}\nL: ret; }}\n"


def refused(tool: str, forms: Sequence[str]) -> set[str]:
    """Return which forms ptxas refuses."""
    found: set[str] = set()
    for start in range(0, len(forms), BATCH):
        text = HEAD + "".join(entry(n, form) for n, form in enumerate(forms[start : start + BATCH]))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forms.ptx"
            path.write_text(text)
            words = [tool, "-c", "-arch=compute_90a", str(path), "-o", "/dev/null"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
        lines = text.splitlines()
        said = done.stdout + done.stderr
        numbers = {int(number) for number in re.findall(r"line (\d+); error", said)}
        if done.returncode and not numbers:
            raise SystemExit(f"ptxas did not say which line it refuses:\n{said[:2000]}")
        found |= {lines[number - 1] for number in numbers}
    return found


def why_not(form: str) -> str:
    """Say why the executor does not translate a form; empty where it does."""
    try:
        module = parse(HEAD + entry(0, form))
        translate(module, Layout(module), "k0")
    except (NotExecutedError, PtxError) as error:
        return str(error)
    return ""


def main() -> int:
    """Put all forms to ptxas and to the executor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines file to add rows to")
    words = parser.parse_args()
    tool = ptxas()
    if not tool:
        raise MissingToolError("no ptxas; install CUDA's toolkit or triton")
    lists: dict[str, list[str]] = {"+": [], "-": []}
    for line in gzip.decompress(FORMS.read_bytes()).decode().splitlines():
        lists[line[0]].append(line[2:])
    wrong = [*refused(tool, lists["+"]), *(set(lists["-"]) - refused(tool, lists["-"]))]
    taken, left = Counter[str](), defaultdict[str, list[tuple[str, str]]](list)
    for form in lists["+"]:
        opcode = re.split(r"[.\s;]", form)[0]
        taken[opcode] += 1
        if why := why_not(form):
            left[opcode].append((form, why))
    with words.out.open("a") as file:
        for opcode, count in sorted(taken.items()):
            row = {"opcode": opcode, "forms": count, "refused": len(left[opcode])}
            row |= {"example": left[opcode][0]} if left[opcode] else {}
            file.write(json.dumps(row) + "\n")
    total = sum(map(len, left.values()))
    print(f"ptxas takes {len(lists['+'])} forms of {len(taken)} opcodes; {total} are not executed:")
    print(", ".join(f"{opcode} {len(found)}" for opcode, found in sorted(left.items()) if found))
    print(
        f"ptxas refuses {len(lists['-'])} that the translation alone would run; lists that are wrong: {len(wrong)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
