"""Instructions give what Python's whole numbers and fractions give, bit for bit."""

import random

import numpy as np
import pytest

from kernelwright.executor import Module, Options

from .packed import FAMILIES
from .reals import NAN
from .semantics import ptx, value

COUNT = 8
"""Instructions of a family; `check.py long instructions` draws 2,000 and more."""


def mismatches(cases, rng):
    """Execute cases on 32 lanes of random operands; return what differs from its meaning."""
    given = np.zeros((len(cases), 3, 32), np.uint64)
    got = np.zeros((len(cases), 32), np.uint64)
    for n, c in enumerate(cases):
        for k, width in enumerate(c.widths[1:]):
            f = c.operand_formats[k] if c.operand_formats else None
            given[n, k] = [value(rng, width, f) for _ in range(32)]
    run = Module.load(ptx(cases))["fuzz"](1, 32, [given, got], options=Options(races=False, count=False))
    assert run.ok, run.findings
    wrong = []
    for n, c in enumerate(cases):
        for lane in range(32):
            operands = [int(given[n, k, lane]) for k in range(len(c.widths) - 1)]
            expected, actual = c.means(*operands), int(got[n, lane])
            same = c.format is not None and c.format.is_nan(actual) if expected == NAN else expected == actual
            if not same:
                wrong.append(
                    (
                        c.text,
                        [hex(o) for o in operands],
                        expected if expected == NAN else hex(expected),
                        hex(actual),
                    )
                )
    return wrong


@pytest.mark.parametrize("family", dict.fromkeys(FAMILIES), ids=lambda f: f.__name__)
def test_random_instructions(family):
    rng = random.Random(7)
    cases = list({c.text: c for c in (family(rng) for _ in range(COUNT))}.values())
    assert mismatches(cases, rng) == []


def test_a_wrong_meaning_would_be_seen():
    from dataclasses import replace

    rng = random.Random(0)
    c = FAMILIES[0](rng)
    wrong = replace(c, means=lambda *v: c.means(*v) ^ 1)
    assert len(mismatches([wrong], rng)) == 32
