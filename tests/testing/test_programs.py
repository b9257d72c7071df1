"""Random programs are deterministic, readable, runnable, and varied enough to be worth running."""

import re

import pytest
import torch

from kernelwright.testing import random_program

PROGRAMS = [random_program(seed) for seed in range(150)]


def test_the_same_seed_gives_the_same_program_and_values() -> None:
    one, other = random_program(11), random_program(11)
    assert str(one) == str(other) != str(random_program(12))
    assert all(torch.equal(a, b) for a, b in zip(one.inputs(), other.inputs(), strict=True))


def test_the_source_is_the_program() -> None:
    for program in PROGRAMS[:30]:
        scope: dict[str, object] = {}
        exec(str(program), scope)
        got, expected = scope["program"](*scope["inputs"]()), program.function(*program.inputs())
        torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_values_stay_finite() -> None:
    for program in PROGRAMS:
        found = program.function(*program.inputs())
        for tensor in found if isinstance(found, tuple) else (found,):
            assert tensor.isfinite().all(), str(program)


KINDS = (
    r"\.sum\(", "softmax", "cumsum", "argm", " @ ", "F.pad", r"torch\.cat", "where", r"\.permute\(", "_pool1d",
    "gather|index_select", "layer_norm", r"\.expand\(", r"\.flip\(", "var", "half", "bfloat16", "randint",
    r"> 0\.5", r"\.t\(\)",
)  # fmt: skip


@pytest.mark.parametrize("of", KINDS)
def test_every_kind_of_step_comes_up(of: str) -> None:
    assert any(re.search(of, str(program)) for program in PROGRAMS)


def test_prefixes_end_with_each_step_and_hold_no_dead_line() -> None:
    program = random_program(8, steps=12)
    prefixes = program.prefixes()
    assert [p.returns[0] for p in prefixes] == [name for name, _ in program.lines]
    for prefix in prefixes:
        assert prefix.needed() == prefix
        prefix.function(*prefix.inputs())


def test_only_the_dtypes_asked_for_come_in() -> None:
    for seed in range(20):
        assert {t.dtype for t in random_program(seed, dtypes=("float16",)).inputs()} == {torch.float16}


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
def test_recurrent_programs_have_every_kind_of_layer_and_use_it() -> None:
    found = [str(random_program(seed, steps=3, recurrent=True)) for seed in range(30)]
    assert all("v0 = torch." in text and "x0" in text.split("def program")[1] for text in found)
    for kind in ("lstm(", "gru(", "rnn_tanh(", "rnn_relu("):
        assert any(kind in text for text in found)
