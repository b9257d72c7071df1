"""What shows that a program of a harness is at fault, on whole numbers and on what it copies."""

from dataclasses import replace

import numpy as np
import pytest

from kernelwright.suites._call_faults import (
    Compared,
    Replay,
    by_heart,
    copied_from_host,
    fault_on_others,
    writes_nothing,
)
from kernelwright.suites._kept_calls import Answer, Argument, Call

IN, OUT = Argument("p", "i", 4, const=True, memory=0), Argument("p", "i", 4, memory=1)
COUNT = 64
GIVEN = np.arange(COUNT, dtype=np.int32)
CALL = Call("doubled", "", (IN, OUT), (GIVEN.tobytes(), bytes(4 * COUNT)))
WHOLE = "whole numbers of other sizes and signs"


def doubling(change=lambda values: values):
    """Return a program that doubles, and whose answers are changed."""

    def answers(calls):
        given = [np.frombuffer(call.memories[0], np.int32) for call in calls]
        return [
            Answer((call.memories[0], change(np.int32(2) * values).astype(np.int32).tobytes()))
            for call, values in zip(calls, given, strict=True)
        ]

    return Replay(answers, list)


def short(values):
    return 2 * (values // 2).astype(np.int16).astype(np.int32)


def single(values):
    return 2 * (values // 2).astype(np.float32).astype(np.int64)


def answered(values):
    return np.where(np.abs(values) > 10_000, 0, values)


@pytest.mark.filterwarnings("ignore:overflow")
class TestWholeNumbers:
    def judged(self, change, numbers):
        drawn = [numbers.integers(-(2**29), 2**29, COUNT, np.int32) for _ in range(4)]
        calls = [Call("doubled", "", (IN, OUT), (d.tobytes(), bytes(4 * COUNT)), kind=WHOLE) for d in drawn]
        mine, right = doubling(change), doubling()
        made = [
            Compared(call, wanted, got)
            for call, wanted, got in zip(calls, right.answers(calls), mine.answers(calls), strict=True)
        ]
        return fault_on_others(mine, right, [CALL], made, numbers)

    @pytest.mark.parametrize(("change", "bits"), [(short, 15), (single, 24)])
    def test_digits_that_are_lost_are_counted(self, change, bits):
        assert f"below 2^{bits} and on none beyond" in self.judged(change, np.random.default_rng(1))

    def test_a_limit_of_its_own_says_nothing_of_digits(self):
        assert self.judged(answered, np.random.default_rng(1)) == ""


def test_a_program_that_prints_what_looks_like_an_answer_shows_nothing():
    wanted, more = Answer((GIVEN.tobytes(), (2 * GIVEN).tobytes())), Answer((b"\0" * 4,) * 3, from_host=99)
    assert not writes_nothing(CALL, more, wanted)
    assert copied_from_host([CALL], [more], [wanted]) == ""
    assert by_heart([Compared(replace(CALL, kind="elements in another order"), wanted, more)] * 8) == ""


class TestCopies:
    def answer(self, **more):
        return Answer((GIVEN.tobytes(), (2 * GIVEN).tobytes()), **more)

    def test_answers_that_come_from_the_host_are_told_from_those_of_kernels(self):
        wanted, copied = self.answer(), self.answer(from_host=COUNT)
        assert copied_from_host([CALL], [copied], [wanted]).startswith(
            f"{COUNT} bytes of its answers were copied"
        )
        assert copied_from_host([CALL], [wanted], [wanted]) == ""

    def test_nothing_follows_where_few_are_or_the_original_copies_too(self):
        wanted, few, copied = self.answer(), self.answer(from_host=9), self.answer(from_host=COUNT)
        assert copied_from_host([CALL], [few], [wanted]) == ""
        assert copied_from_host([CALL, CALL], [copied, wanted], [wanted, wanted]) == ""
        assert copied_from_host([CALL], [copied], [copied]) == ""

    def test_what_is_left_as_it_was_given_is_no_answer(self):
        wanted = self.answer()
        assert writes_nothing(CALL, Answer(CALL.memories), wanted)
        assert not writes_nothing(CALL, wanted, wanted)
        assert not writes_nothing(CALL, wanted, Answer(CALL.memories))
