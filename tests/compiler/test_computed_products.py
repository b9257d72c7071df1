"""Products of two computed factors that are laid out once: right with every tail and layout, only for what is large."""

import dataclasses

import pytest
import torch
from tests.compiler.narrower import EIGHT, differing
from tests.compiler.test_actions import graph_of
from tests.compiler.test_products import built, differences
from torch.nn import functional as F

from kernelwright.compiler.graph import Contract
from kernelwright.compiler.lower import Decisions, lower
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.printers.cpp import _contraction
from kernelwright.compiler.tile import Tiling

CASES = {
    "tails": (lambda x, w, b: torch.relu(x @ w + b), [(29, 50), (50, 37), (37,)]),
    "before_and_after": (lambda x, w: F.gelu(F.silu(x) @ torch.tanh(w).t()), [(2, 9, 70), (37, 70)]),
    "items": (lambda x, w: torch.bmm(x, w.transpose(1, 2)) * 2, [(3, 10, 31), (3, 18, 31)]),
    "heads": (lambda x, w: (x @ w).reshape(2, 5, 3, 8).transpose(1, 2) + 1, [(2, 5, 24), (24, 24)]),
    "turned_left": (lambda x, w: x.t() @ w, [(40, 25), (40, 35)]),
    "turned_both": (lambda x, w: x.t() @ w.t(), [(300, 27), (19, 300)]),
    "few_rows": (lambda x, w: x @ w, [(1, 150), (150, 20)]),
    "by_threads": (lambda x, w: x @ w, [(301, 130), (130, 83)]),
}
"""A function and shapes of its arguments."""


def program_of(case, tiling):
    function, shapes = CASES[case]
    graph = graph_of(function, *shapes)
    products = [n.name for n in graph.nodes if isinstance(n, Contract)]
    program = lower(graph, Decisions(tilings=dict.fromkeys(products, tiling)))
    return graph, dataclasses.replace(program, name=case)


@pytest.mark.parametrize("flags", differing({"all": (), "eight": EIGHT}).values(), ids=str)
def test_every_tail_and_layout_is_multiplied(monkeypatch, flags):
    monkeypatch.setattr(_contraction, "_WIDE", (1, 1, 1))
    programs = {case: program_of(case, Tiling("panels", depth=32)) for case in CASES}
    programs["narrow"] = program_of("tails", Tiling("panels", vectors=1, rows=4))
    programs["narrow"] = (programs["narrow"][0], dataclasses.replace(programs["narrow"][1], name="narrow"))
    for _, program in programs.values():
        assert "kw::multiply_computed<Tiles>" in cpp.source(program)
    for name, difference in differences(programs, built(programs, *flags)):
        assert difference < 1e-4, name


def test_only_what_is_large_in_every_direction_is_laid_out_once():
    def text_of(*sizes, tiling=None, dtype="float32"):
        rows, columns, inner = sizes
        graph = graph_of(lambda x, w: x @ w, (rows, inner), (inner, columns), dtype=dtype)
        (one,) = (n.name for n in graph.nodes if isinstance(n, Contract))
        return cpp.source(lower(graph, Decisions(tilings={one: tiling or Tiling("panels")})))

    assert "multiply_computed" in text_of(768, 768, 256)
    for less in ((767, 768, 256), (768, 767, 256), (768, 768, 255)):
        assert "multiply_computed" not in text_of(*less)
    assert "multiply_computed" not in text_of(768, 768, 256, tiling=Tiling("panels", split=2))
    assert "multiply_computed" not in text_of(768, 768, 256, dtype="bfloat16")
