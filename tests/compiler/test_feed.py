"""Rows computed right before the library multiplies them: where it is legal, what it prints, and that it is right."""

from pathlib import Path

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of

from kernelwright.compiler._layouts import laid_out, space_of
from kernelwright.compiler.actions import State, taken
from kernelwright.compiler.graph import read
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import beam, estimate
from kernelwright.compiler.printers import cpp
from kernelwright.languages import get_language
from kernelwright.tasks import Problem, load_task

TASK = """
import kernelwright as kw, torch
@kw.task(x="float32[rows, cols]", w="float32[cols, out]", workloads=[{{"rows": 40000, "cols": 512, "out": 100}}])
def f(x, w):
    return {}
"""


BATCH = """
import kernelwright as kw, torch
@kw.task(x="float32[items, rows, cols]", w="float32[items, cols, out]",
         workloads=[{{"items": 64, "rows": 200, "cols": 512, "out": 100}}])
def f(x, w):
    return {}
"""


ITEMS = BATCH.replace("float32[items, cols, out]", "float32[cols, out]")


def library_of(folder, body, task=TASK, product="mm"):
    """Return the state in which the library multiplies."""
    path = folder / "task.py"
    path.write_text(task.format(body))
    graph = read(Problem(load_task(str(path))))
    return taken(State(graph, graph), BY_NAME["library"], product)


@pytest.mark.parametrize(
    ("body", "site"),
    [
        ("torch.relu(x) @ w", "relu_kernel.relu"),
        ("torch.softmax(x, -1) @ w", "softmax_kernel.softmax"),
        ("torch.relu(x - w[:, 0]) @ w", "relu_kernel.relu"),
        ("torch.relu(x - x.amax(0)) @ w", ""),
        ("torch.relu(x - x.mean(0)) @ w", ""),
        ("torch.softmax(x, 0) @ w", ""),
        ("x.cumsum(0) @ w", ""),
        ("torch.relu(x.flip(0)) @ w", ""),
        ("(h := torch.relu(x)) @ w + h.sum()", ""),
    ],
)
def test_a_product_is_fed_where_its_rows_are_computed_one_by_one(tmp_path, body, site):
    assert list(BY_NAME["feed"].sites(library_of(tmp_path, body))) == ([site] if site else [])


@pytest.mark.parametrize(
    ("body", "fed"),
    [
        ("torch.softmax(x, -1) @ w", True),
        ("torch.softmax(x, 0) @ w", False),
        ("(torch.relu(x) - x.amax(0)) @ w", False),
    ],
)
def test_a_batch_is_fed_where_its_items_are_computed_one_by_one(tmp_path, body, fed):
    plain = library_of(tmp_path, body, BATCH, "bmm")
    sites = list(BY_NAME["feed"].sites(plain))
    assert sites == (["softmax_kernel.softmax"] if fed else [])
    if fed:
        after = taken(plain, BY_NAME["feed"], sites[0])
        text = cpp.render(after.program, after.graph).sources[1].text
        assert "rows_at_once = max(1, 1048576 // max(1, 4 * rows * cols))" in text
        assert "(x[first:last], w[first:last], softmax[:last - first], bmm[first:last], last - first)" in text


def test_rows_of_a_constant_number_are_not_fed():
    graph = graph_of(lambda x, w: torch.relu(x) @ w, (64, 8), (8, 4))
    assert not list(BY_NAME["feed"].sites(taken(State(graph, graph), BY_NAME["library"], "mm")))


def test_a_fed_product_is_right_at_every_number_of_rows(tmp_path):
    plain = library_of(tmp_path, "torch.softmax(x, -1) @ w")
    after = taken(plain, BY_NAME["feed"], "softmax_kernel.softmax")
    space = space_of(after.program, after.decisions.moves)
    assert next(p for p in space.parameters if p.name == "panel_kib").values[0] == 1024
    small = lower(after.graph, laid_out(after.decisions, {"panel_kib": 4}))
    candidate = cpp.render(small, after.graph)
    text = candidate.sources[1].text
    assert "rows_at_once = max(1, 4096 // max(1, 4 * cols))" in text
    assert "aten.mm.out(softmax, w, out=mm)" in text
    assert "mm_rows(x[first:last], softmax[:last - first], mm[first:last], last - first)" in text
    build = get_language("cpp").build(candidate, deadline_s=400)
    kernel = get_language("cpp").load(candidate, Path(build.artefact), ())
    generator = torch.Generator().manual_seed(4)
    for rows in (1, 7, 50):
        x, w = (torch.randn(s, generator=generator) for s in ((rows, 30), (30, 5)))
        assert torch.allclose(kernel(x, w), torch.softmax(x, -1) @ w, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "is_fed"),
    [
        ("torch.relu(x) @ w", True),
        ("torch.relu(x.flip(1)) @ w", False),
        ("torch.softmax(x, 1) @ w", True),
        ("torch.softmax(x, 0) @ w", False),
        ("torch.relu(x - x.amax((0, 1))) @ w", False),
        ("torch.relu(x + x[0]) @ w", False),
    ],
)
def test_items_of_rows_are_fed_where_they_are_computed_one_by_one(tmp_path, body, is_fed):
    sites = list(BY_NAME["feed"].sites(library_of(tmp_path, body, ITEMS)))
    assert sites == (["view_kernel.view"] if is_fed else [])


def test_items_of_rows_are_right_at_every_number_of_them(tmp_path):
    plain = library_of(tmp_path, "torch.softmax(x, -1) @ w", ITEMS)
    after = taken(plain, BY_NAME["feed"], "view_kernel.view")
    small = lower(after.graph, laid_out(after.decisions, {"panel_kib": 4}))
    candidate = cpp.render(small, after.graph)
    text = candidate.sources[1].text
    assert "rows_at_once = max(1, 4096 // max(1, 4 * rows * cols))" in text
    one = "x[first:last], view[:(last - first) * rows], mm[first * rows:last * rows], last - first"
    assert f"mm_rows({one})" in text
    build = get_language("cpp").build(candidate, deadline_s=400)
    kernel = get_language("cpp").load(candidate, Path(build.artefact), ())
    generator = torch.Generator().manual_seed(4)
    for items, rows in ((1, 3), (7, 9), (5, 50)):
        x, w = (torch.randn(s, generator=generator) for s in ((items, rows, 30), (30, 5)))
        assert torch.allclose(kernel(x, w), torch.softmax(x, -1) @ w, atol=1e-6)


def test_what_is_fed_never_lies_in_memory(tmp_path):
    plain = library_of(tmp_path, "torch.relu(x) @ w")
    after = taken(plain, BY_NAME["feed"], "relu_kernel.relu")
    saved = estimate(plain.program).memory_bytes - estimate(after.program).memory_bytes
    assert saved == 2 * plain.program.buffer("relu").elements * 4
    assert estimate(after.program).panels > 0
    assert "library(mm); feed(relu_kernel.relu)" in [leaf.state.text for leaf in beam(plain.origin)]
