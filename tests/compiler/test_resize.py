"""Interpolated images: read as gathers, one dimension after another, and printed in lanes."""

import dataclasses

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_moves import start_of
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler.actions import taken
from kernelwright.compiler.graph import Gather, Native, Size, interpret
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.printers.cpp._bounds import MOST, bound
from kernelwright.compiler.tile import Extent, Literal

RESIZED = {
    "twice": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 20, 35)),
    "corners": (lambda x: F.interpolate(x, size=(21, 50), mode="bilinear", align_corners=True), (2, 3, 20, 35)),
    "uneven": (lambda x: F.interpolate(x, size=(31, 47), mode="bilinear"), (2, 3, 20, 35)),
    "smaller": (lambda x: F.interpolate(x, size=(7, 9), mode="bilinear"), (2, 3, 20, 135)),
    "far": (lambda x: F.interpolate(x, size=(7, 40), mode="bilinear"), (2, 3, 20, 1300)),
    "one": (lambda x: F.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True), (2, 3, 4, 5)),
    "factor": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (2, 3, 20, 35)),
    "sequence": (lambda x: F.interpolate(x, scale_factor=3, mode="linear"), (2, 3, 40)),
    "many": (lambda x: F.interpolate(x, size=(15, 41), mode="bilinear"), (4, 5, 7, 35)),
    "volume": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (1, 2, 3, 4, 18)),
}  # fmt: skip


@pytest.mark.parametrize("name", list(RESIZED))
def test_an_interpolation_is_read_as_gathers(name):
    function, shape = RESIZED[name]
    graph = graph_of(function, shape)
    assert any(isinstance(n, Gather) for n in graph.nodes) and not any(
        isinstance(n, Native) for n in graph.nodes
    )
    x = torch.randn(shape)
    (found,) = interpret(graph, [x])
    assert torch.allclose(found.double(), function(x.double()), atol=1e-5)


def test_printed_interpolations_are_right_and_in_lanes():
    names = list(RESIZED)
    states = {n: start_of(RESIZED[n][0], RESIZED[n][1]) for n in names}
    library = built({n: (s.graph, dataclasses.replace(s.program, name=n)) for n, s in states.items()})
    for name in names:
        function, shape = RESIZED[name]
        x = torch.randn(shape)
        x.flatten()[7] = torch.nan
        wanted = function(x)
        found = torch.empty_like(wanted)
        library.get_function(name)(x, found)
        near = torch.allclose(
            found, wanted, atol=2e-5, equal_nan=True
        )  # positions near 20 have steps of 2e-6
        assert near, (name, (found - wanted).nan_to_num().abs().max())
    source = cpp.source(states["twice"].program)
    assert source.count("kw::load_at(") == 4 and "kw::each" not in source
    assert source.count("kw::places(") == 2  # rows and the rows below share where columns lie
    source = cpp.source(states["many"].program)  # four rows at a time, then the rest
    assert (source.count("kw::load_at("), source.count("kw::places(")) == (4 * 4 + 4, 2 + 2)


def test_a_product_finds_neighbours_where_it_reads_them():
    """Its factors are functions of their own, without statements before them that could name anything."""
    resized = start_of(lambda x, w: F.interpolate(x[None], scale_factor=3)[0] @ w, (40, 40), (120, 48))
    linear = start_of(
        lambda x, w: F.interpolate(x[None], scale_factor=3, mode="linear")[0] @ w, (40, 40), (120, 48)
    )
    for state in (resized, linear):
        text = cpp.source(taken(state, BY_NAME["direct"], "mm").program)
        assert text.count("kw::load_at(") == text.count("kw::places(") and "kw::LanePlaces" not in text
    assert "kw::load_at(" in text


def test_a_size_is_small_and_a_product_of_sizes_may_not_be():
    rows = Size("x_0", (8, 3))
    limits = [bound(Extent(size), {}) < MOST for size in (rows, rows * 2 - 1, rows * Size("x_1", (5, 7)))]
    assert limits == [True, True, False] and bound(Literal(rows, "int64"), {}) < MOST


def test_places_that_values_decide_are_read_one_by_one():
    """An index tensor may hold what 32 bits do not; and a product of positions may grow beyond them."""
    taken = start_of(lambda x, at: torch.gather(x, 1, (at * 3).long()), (4, 40), (4, 40))
    assert "kw::load_at(" not in cpp.source(taken.program)
    far = start_of(lambda x: (torch.arange(40) * 1e10).long() + (x > 0), (40,))
    assert "kw::to_integers(" not in cpp.source(far.program)


def test_positions_of_a_grid_are_a_gather_for_each_dimension():
    def grid(x):
        rows, columns = torch.arange(10) * 2, torch.arange(17) + 3
        return x[:, :, rows[:, None], columns]

    graph = graph_of(grid, (2, 3, 20, 35))
    assert sum(isinstance(n, Gather) for n in graph.nodes) == 2
    x = torch.randn(2, 3, 20, 35)
    assert torch.equal(interpret(graph, [x])[0].float(), grid(x))
