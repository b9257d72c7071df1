"""Templates: how they are found, rendered and refused."""

import doctest
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.ops.templates import templates

from kernelwright import ops
from kernelwright.ops import KernelTemplate, Rendered
from kernelwright.ops._parametric import families, matchers, opencl, source, template, triton
from kernelwright.propose import Template
from kernelwright.records import Parameter, Space

HOME = Path(ops.__file__).parent
SPACE = Space(parameters=(Parameter(name="unroll", values=(1, 2)),))


@pytest.mark.parametrize("module", [families, opencl, source, template, triton])
def test_examples_in_docstrings(module) -> None:
    assert doctest.testmod(module).failed == 0


def test_one_folder_serves_who_imports_an_op_and_who_optimises() -> None:
    """A folder with both a kernel and a template is found by its name for both uses."""
    both = {file.parent.name for file in HOME.glob("[!_]*/template.py")} & set(ops.families())
    assert both >= {"activations", "gemm", "loss", "rope", "scan"}
    for name in both:
        assert ops.family(name).KERNEL.file.parent == HOME / name
        assert matchers()[name].__module__ == f"kernelwright.ops.{name}.template"


def test_every_family_with_a_template_is_asked_rows_last() -> None:
    assert set(matchers()) == {file.parent.name for file in HOME.glob("*/template.py")} - {"_parametric"}
    assert list(matchers())[-1] == "rows"


def test_a_graph_is_served_by_the_family_it_is_of() -> None:
    x, weight = torch.randn(6, 9), torch.randn(5, 9)
    assert [t.name for t in templates("", F.linear, [x, weight])] == ["matmul/tiles"]
    assert [t.name for t in templates("", torch.mv, [x, weight[0]])] == ["reduce"]
    assert [t.name for t in templates("", lambda x: F.glu(x, 0), [x])] == ["glu/parts"]


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
