"""Random programs: what the graph form means is what torch computes."""

import dataclasses

import pytest
from benchmarks.random_graphs import case_of, reading_fault, smallest

from kernelwright.testing import random_program

CHUNK = 100


def some(count: int) -> list:
    """Every fourth of them, and where there is time the others."""
    return [pytest.param(n, marks=pytest.mark.long if n % 4 else ()) for n in range(count)]


@pytest.mark.parametrize("chunk", some(20))
def test_the_graph_means_what_torch_computes(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        program = random_program(seed)
        why = reading_fault(program)
        assert why is None, "{1}\n{0}".format(*smallest(program, reading_fault))


@pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
def test_a_recurrent_layer_and_what_follows_it_mean_what_torch_computes() -> None:
    for seed in range(60):
        program = random_program(seed, steps=4, recurrent=True)
        why = reading_fault(program)
        assert why is None, "{1}\n{0}".format(*smallest(program, reading_fault))


@pytest.mark.parametrize("seed", some(12))
def test_an_exported_program_reads_the_same(seed: int) -> None:
    assert reading_fault(random_program(seed), exported=True) is None


def test_a_wrong_answer_is_told_from_a_fair_one() -> None:
    case = case_of(random_program(2, dtypes=("float32",)))
    assert case.difference(case.native) is None
    assert case.difference([t + 1e-3 * (1 + t.abs().max()) for t in case.native]) is not None
    assert "shape" in str(case.difference([t.unsqueeze(0) for t in case.native]))


def test_a_failure_is_cut_down_to_its_first_step() -> None:
    program = random_program(8, steps=12)
    third = program.lines[2][0]
    part, why = smallest(program, lambda p: "third" if third in [name for name, _ in p.lines] else None)
    assert why == "third" and part.returns == (third,)
    assert part == dataclasses.replace(program, lines=program.lines[:3], returns=(third,)).needed()
