"""Drafts become candidates and templates, or a complaint that says what to change."""

import pytest

from kernelwright.propose import SourceTemplate
from kernelwright.propose.llm._proposals import proposal_of
from kernelwright.propose.llm._replies import ReplyError, read_code
from kernelwright.records import SourceFile

from .conftest import KERNEL, candidate

TEMPLATE = """```space
{"parameters": {"TILE": [8, 16, 32], "FAST": [true, false]}, "constraints": ["TILE > 8"],
 "first": {"TILE": 16, "FAST": true}}
```
```cpp
#include "kernelwright.h"
constexpr int kTile = @TILE@, kFast = @FAST@;
KW_KERNEL(scaled) {}
```"""


def made(text, problem, *, languages=("cpp",), parents=(), reason="why"):
    return proposal_of(read_code(text), problem.task, languages, parents, reason)


def test_a_whole_file(problem):
    one = made(f"IDEA: one loop\n```cpp\n{KERNEL}```\nFLAGS: -O2", problem)
    assert (one.language, one.entry, one.style) == ("cpp", "kernel.cpp:scaled", "destination")
    assert (one.flags, one.reason, one.proposer, one.parents) == (("-O2",), "one loop", "llm", ())


def test_python_and_opencl_by_what_they_hold(problem):
    python = made("```python\nimport torch\ndef run(x):\n    return x\n```", problem, languages=("torch",))
    assert (python.language, python.entry, python.style) == ("torch", "kernel.py:run", "function")
    kernel = "// launch: global = 1\n__kernel void f(__global const float* x, __global float* out) {}\n"
    opencl = made(f"```opencl\n{kernel}```", problem, languages=("opencl",))
    assert (opencl.language, opencl.entry) == ("opencl", "kernel.cl:f")


def test_of_several_blocks_the_longest_that_fits(problem):
    caller = "x = 1" * 200
    text = f"An idea:\n```cpp\nfor (;;) {{}}\n```\nTo call it:\n```python\n{caller}\n```\n```cpp\n{KERNEL}```"
    assert made(text, problem).sources[0].text == KERNEL


def test_headers_come_along(problem):
    text = KERNEL.replace("kernelwright.h", "vector.h")
    own = made(f"```cpp\n{text}```", problem)
    assert {s.path for s in own.sources} == {"kernel.cpp", "vector.h", "traffic.h", "kernelwright.h"}
    parent = candidate().model_copy(
        update={"sources": (SourceFile(path="mine.h", text="#define A 1\n"), *candidate().sources)}
    )
    child = made(f'```cpp\n#include "mine.h"\n{KERNEL}```', problem, parents=(parent,))
    assert "mine.h" in {s.path for s in child.sources} and child.parents == (parent.key,)


def test_edits_of_the_first_parent(problem):
    parent = candidate(flags=("-O3",))
    line = "  auto x = args.tensor<const float>(0);"
    edit = f"<<<<<<< SEARCH\n{line}\n=======\n{line}  // x\n>>>>>>> REPLACE"
    child = made(edit, problem, parents=(parent, candidate("other")))
    assert "// x" in child.sources[0].text and child.flags == ("-O3",)
    assert len(child.parents) == 2 and child.key != parent.key


def test_a_template_is_filled_by_the_tuner(problem):
    template = made(TEMPLATE, problem)
    assert isinstance(template, SourceTemplate) and template.name.startswith("llm/")
    assert template.default() == {"TILE": 16, "FAST": 1}
    assert "kTile = 32, kFast = 0;" in template.render({"TILE": 32, "FAST": 0}).sources[0].text
    assert [c["TILE"] for c in template.space.configurations()] == [16, 16, 32, 32]


def test_without_a_first_configuration_the_first_allowed_one(problem):
    text = TEMPLATE.replace(',\n "first": {"TILE": 16, "FAST": true}', "")
    assert '"first"' not in text
    template = made(text.replace("TILE > 8", "TILE > 16"), problem)
    assert template.default() == {"TILE": 32, "FAST": 1}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```rust\nfn main() {}\n```", "the answer is in rust; expected cpp"),
        ("```python\nimport torch\ndef run(x): return x\n```", "the answer is in python; expected cpp"),
        ("```cpp\nint main() {}\n```", "exported symbols found: none"),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", "there is none; answer with the whole file"),
        (TEMPLATE.replace("@FAST@", "1"), "differ: FAST"),
        (TEMPLATE.replace("TILE > 8", "TILE > 99"), "none fulfils"),
        (TEMPLATE.replace("TILE > 8", "NOPE > 8"), "'NOPE' is not defined"),
        (TEMPLATE.replace("TILE > 8", "__import__('os')"), "cannot be used"),
        (TEMPLATE.replace("TILE > 8", "TILE ** 9 ** 9 ** 9 > 0"), "unbounded powers"),
        (TEMPLATE.replace("TILE > 8", "(TILE ** 64) ** 64 > 0"), "unbounded powers"),
        (TEMPLATE.replace("TILE > 8", "'x' * 10 != 'y'"), "computes with words"),
        (TEMPLATE.replace("TILE > 8", "(FAST and (1, 2)) * 10 != 0"), "computes with words"),
        (TEMPLATE.replace("[8, 16, 32]", "8"), "cannot be used"),
        (f"```cpp\n{KERNEL}// @LOST@\n```", "no ```space block"),
    ],
    ids=[
        "rust",
        "python",
        "no entry",
        "no file",
        "mark",
        "constraint",
        "name",
        "code",
        "power",
        "powers",
        "words",
        "tuple",
        "values",
        "no space",
    ],
)
def test_what_cannot_be_used_is_told(problem, text, complaint):
    with pytest.raises(ReplyError, match=complaint):
        made(text, problem)


def test_a_syntax_error_is_told_without_our_folder(problem):
    with pytest.raises(ReplyError, match=r"^kernel\.py: line 1 is not Python"):
        made("```python\ndef run(x:\n    return x\n```", problem, languages=("torch",))


def test_edits_that_change_nothing(problem):
    line = "  auto x = args.tensor<const float>(0);\n"
    with pytest.raises(ReplyError, match="change nothing"):
        made(f"<<<<<<< SEARCH\n{line}=======\n{line}>>>>>>> REPLACE", problem, parents=(candidate(),))
