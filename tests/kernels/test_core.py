"""Templates, families, axes and the expression printer."""

import doctest

import pytest

from kernelwright.kernels import KernelTemplate, Rendered, families
from kernelwright.kernels._core import Term, Unprintable, expression, print_pointwise, template
from kernelwright.kernels._core.axes import Axes
from kernelwright.propose import Template
from kernelwright.records import Parameter, Space

SPACE = Space(parameters=(Parameter(name="unroll", values=(1, 2)),))


def test_examples_in_docstrings() -> None:
    for module in (expression, template):
        assert doctest.testmod(module).failed == 0


def test_families_are_found_by_name_most_specific_first() -> None:
    names = [f.name for f in families()]
    assert {"loss", "norm", "softmax", "reduce", "pointwise"} <= set(names)
    assert names.index("softmax") < names.index("reduce") < names.index("pointwise")


def test_a_template_renders_a_self_contained_candidate() -> None:
    made = KernelTemplate(
        "t", "cpp", SPACE, {"unroll": 2}, lambda c: Rendered(f'#include "rows.h"\n// {c}', "t")
    )
    assert isinstance(made, Template)
    candidate = made.render({"unroll": 1})
    headers = {"kernelwright.h", "rows.h", "traffic.h", "vector.h"}
    assert {s.path for s in candidate.sources} == {"kernel.cpp", *headers}
    assert candidate.parameters == {"unroll": 1}
    assert candidate.key == made.render({"unroll": 1}).key != made.render({"unroll": 2}).key


def test_a_configuration_outside_the_space_is_refused() -> None:
    made = KernelTemplate("t", "cpp", SPACE, {"unroll": 2}, lambda c: Rendered("", "t"))
    with pytest.raises(ValueError, match="not in the space"):
        made.render({"unroll": 3})
    with pytest.raises(ValueError, match="not in its space"):
        KernelTemplate("t", "cpp", SPACE, {"unroll": 5}, lambda c: Rendered("", "t"))


def test_printing() -> None:
    x, m = Term("x"), Term("m", "mask")
    assert print_pointwise("aten.sub.Tensor", [1, x]).text == "(1.0f - x)"
    assert print_pointwise("aten.where.self", [m, x, 0.0]).text == "kw::select(m, x, kw::splat(0.0f))"
    assert print_pointwise("aten.mul.Tensor", [m, x]).text == "(kw::to_float(m) * x)"
    assert print_pointwise("aten.eq.Scalar", [Term("t", "integer"), -100]).text == "(t == -100)"
    with pytest.raises(Unprintable, match="no vector form"):
        print_pointwise("aten.fft_fft.default", [x])


def test_axes_unify_split_and_merge() -> None:
    axes = Axes()
    channels, pixels = axes.new(8), axes.new(15)
    group, channel = axes.new(2), axes.new(4)
    axes.unify((channels,), (group, channel))
    assert axes.resolve((channels, pixels)) == (group, channel, pixels)
    assert axes.reshape(((channels,), (pixels,)), (120,)) == ((group, channel, pixels),)
    with pytest.raises(Unprintable, match="splits an axis"):
        axes.reshape(((pixels,),), (3, 5))
    with pytest.raises(Unprintable, match="do not broadcast"):
        axes.broadcast([((channels,),), ((pixels,),)])
