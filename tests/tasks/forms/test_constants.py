"""Constants: found where they are, and the text changed nowhere else."""

import pytest

from kernelwright.tasks.forms._constants import constants, substitute, used_by_init

TEXT = """
N = 64 * 1024  # rows
M: int = 2**4
shape = (N, 32, [8, 7])
height = width = 48
hidden = [80] * 3
a, b = 3, 128
scale = 2.5
flag = True
name = "64"


def get_inputs():
    size = 512
    return [torch.rand(N, 256), torch.randint(0, 256, (size, 4))]


def get_init_inputs():
    return [M, a]


def other():
    return 4096
"""


def test_names_and_values() -> None:
    found = {n: c.value for n, c in constants(TEXT).items()}
    assert found == {
        "N": 65536, "M": 16, "shape[1]": 32, "shape[2][0]": 8, "shape[2][1]": 7, "height": 48, "hidden[0]": 80,
        "a": 3, "b": 128, "get_inputs.0": 512, "get_inputs.1": 256, "get_inputs.2": 256,
    }  # fmt: skip


def test_substitution_touches_only_the_named_expressions() -> None:
    changed = substitute(TEXT, {"N": 8, "shape[2][0]": 5, "get_inputs.2": 17, "height": 6, "hidden[0]": 6})
    expected = TEXT.replace("64 * 1024  # rows", "8  # rows").replace("[8, 7]", "[5, 7]")
    expected = expected.replace("randint(0, 256", "randint(0, 17").replace("width = 48", "width = 6")
    expected = expected.replace("[80] * 3", "[6] * 3")
    assert changed == expected


def test_values_equal_to_the_file_s_leave_it_alone() -> None:
    assert substitute(TEXT, {n: c.value for n, c in constants(TEXT).items()}) == TEXT


def test_text_beyond_ascii_keeps_its_place() -> None:
    assert substitute('größe = "é"; N = 64 # ü', {"N": 2}) == 'größe = "é"; N = 2 # ü'


def test_constants_of_init_are_found_through_other_names() -> None:
    text = "a = 4\nb = 32\nc = 7\npair = (b, c)\ndef get_init_inputs():\n    return [a, pair, 64]\n"
    assert used_by_init(text) == {"a", "b", "c", "get_init_inputs.0"}


def test_of_a_tuple_only_the_names_that_are_read_count() -> None:
    text = "batch, width, (heads, size) = 8, 64, (4, 3)\ndef get_init_inputs(): return [width, heads]\n"
    assert used_by_init(text) == {"width", "heads"}


@pytest.mark.parametrize("expression", ["2**100000", "1 << 99999"])
def test_a_huge_power_is_no_constant(expression: str) -> None:
    assert constants(f"N = {expression}") == {}
