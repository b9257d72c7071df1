"""One description gives manual, assembler and simulator; made-up sets differ from the first and from each other."""

from pathlib import Path

import pytest

from kernelwright.craft import TESSERA, AssemblyError, find_backend, find_task, generated, judge
from kernelwright.craft._assembler import assemble, decode
from kernelwright.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 2, 3, 7)


def test_the_manual_of_the_page_is_the_generated_one():
    assert (ROOT / "docs/craft/manual.md").read_text() == find_backend("tessera").manual()


@pytest.mark.parametrize("name", ["tessera", *(f"made-{s}" for s in SEEDS)])
def test_a_manual_is_short_and_names_every_instruction(name):
    backend = find_backend(name)
    text = backend.manual()
    assert len(text.split()) < 12 * 450
    for operation in backend.description.operations:
        assert f"| `{operation.name}" in text
        assert f"| {operation.opcode} |" in text


def test_sets_from_seeds_share_no_names_and_differ_in_meaning():
    one, two = generated(1), generated(2)
    assert not set(one.by_name) & set(TESSERA.by_name)
    assert [o.roles for o in one.operations] != [o.roles for o in two.operations]
    assert len({generated(s).semantics for s in range(20)}) > 10
    assert generated(1) == generated.__wrapped__(1)


def test_a_program_for_one_set_is_none_for_another():
    text = next(iter(find_backend("made-1").programs(find_task("relu")).values()))
    assert judge(find_task("relu"), find_backend("made-1"), text).status == "right"
    for other in ("tessera", "made-2"):
        assert judge(find_task("relu"), find_backend(other), text).status == "invalid"


@pytest.mark.parametrize("name", ["tessera", "made-1"])
def test_the_binary_form_reads_back(name):
    backend = find_backend(name)
    program = assemble(next(iter(backend.programs(find_task("softmax")).values())), backend.description)
    assert decode(program.encode(), backend.description) == tuple(
        (i.operation, i.values) for i in program.instructions
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("li r1, 2\nhalt\nvaddd v1, v2, v3", 3, "did you mean 'vadd'"),
        ("li r99, 1\nhalt", 1, "r0 to r31"),
        ("li r1\nhalt", 1, "takes 2 operands"),
        ("li r1, 0.5\nhalt", 1, "whole number"),
        ("li r1, 99999999999\nhalt", 1, "32 bits"),
        ("vimm v1, nan\nhalt", 1, "expected a number"),
        ("vimm v1, 1e99\nhalt", 1, "float32"),
        ("\n\njmp nowhere", 3, "no label"),
        ("a: li r1, 1\na: halt", 2, "defined twice"),
        ("li r1, 1", 1, "run past its last"),
        ("jmp end\nhalt\nend:", 1, "behind the last"),
        ("rup r1, r1, 0\nhalt", 1, "at least 1"),
        ("dwait q0, -1\nhalt", 1, "at least 0"),
        ("; nothing", 1, "no instruction"),
        ("li r1, 1\n" * 2048 + "halt", 2049, "at most 2048"),
        ("li r1, 1\0\nhalt", 1, "whole number"),
        ("x" * (2 << 20), 1, "at most"),
    ],
)
def test_errors_name_the_line(text, line, said):
    with pytest.raises(AssemblyError) as raised:
        assemble(text, TESSERA)
    assert [n for n, message in raised.value.errors if said in message] == [line], raised.value.errors


@pytest.mark.parametrize("name", ["x86", "made-", "made-x", "made-99999999999", ""])
def test_unknown_sets_are_refused(name):
    with pytest.raises(InputError, match="no instruction set"):
        find_backend(name)
