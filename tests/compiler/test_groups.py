"""Printers for work-groups: launches, refusals, and printed kernels against float64 where a device is here."""

import sys

import pytest
import torch
from benchmarks.random_graphs import case_of
from tests.compiler.test_random_programs import BITS
from tests.tools import TOOL_OF

from kernelwright.compiler.graph import Size
from kernelwright.compiler.groups import launches, renamed
from kernelwright.compiler.lower import lower
from kernelwright.compiler.printers import Unprintable, opencl, printer_of, wgsl
from kernelwright.compiler.tile import Buffer, Extent, Kernel, Literal, Loop, Position, Program, Store
from kernelwright.languages._process import run_tool
from kernelwright.records import TensorSpec
from kernelwright.testing import RandomProgram, random_program

PRINTERS = {"opencl": opencl.render, "wgsl": wgsl.render}
needs = {name: pytest.mark.needs(TOOL_OF[name]) for name in PRINTERS}


def program(*lines, inputs=("torch.randn(5, 130, generator=g)",)):
    named = tuple((f"v{i}", text) for i, text in enumerate(lines))
    return RandomProgram(0, inputs, named, (named[-1][0],))


def lowered(of):
    case = case_of(of)
    return case, lower(case.graph)


ALONE = """
import sys, torch
from kernelwright.languages import get_language

for i, (language, candidate, inputs, outputs) in enumerate(torch.load(sys.argv[1], weights_only=False)):
    try:
        found = get_language(language).load(candidate, None, outputs)(*inputs)
    except NotImplementedError:
        continue
    torch.save(found if isinstance(found, tuple) else (found,), f"{sys.argv[1]}.{i}")
"""


def ran(language, cases, folder):
    """Print and run cases in a process of their own, so that a driver that hangs or dies is one test that fails.

    Yields each case that has a form in the language with what came out.
    """
    jobs, printed = [], []
    for case in cases:
        try:
            candidate = PRINTERS[language](lower(case.graph), case.graph)
        except Unprintable:
            continue
        outputs = tuple(
            TensorSpec(name=f"o{i}", shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
            for i, t in enumerate(case.native)
        )
        jobs.append((language, candidate, [t.contiguous() for t in case.inputs], outputs))
        printed.append(case)
    torch.save(jobs, folder / "jobs")
    where = {"POCL_CACHE_DIR": str(folder), "PYOPENCL_NO_CACHE": "1"}
    done = run_tool([sys.executable, "-c", ALONE, folder / "jobs"], deadline_s=300, env=where)
    assert done.returncode == 0, done.output or f"ended by signal {-done.returncode}"
    for i, case in enumerate(printed):
        if (folder / f"jobs.{i}").exists():
            yield case, torch.load(folder / f"jobs.{i}")


def test_printers_are_found_by_their_language():
    assert {name: printer_of(name) for name in PRINTERS} == PRINTERS


def test_rows_are_groups_and_elements_are_items():
    _, rows = lowered(program("torch.softmax(x0, 1)"))
    assert [(launch.grouped, len(launch.nest)) for launch in launches(rows)] == [(True, 1)]
    _, points = lowered(program("x0.exp()"))
    assert [launch.grouped for launch in launches(points)] == [False]
    pooled = program("torch.nn.functional.max_pool2d(x0 + x1.view(3, 1, 1), 2)",
                     inputs=("torch.randn(2, 3, 8, 6, generator=g)", "torch.randn(3, generator=g)"))  # fmt: skip
    (launch,) = launches(lowered(pooled)[1])
    assert len(launch.nest) == 4, "values named between loops must not keep loops from being items"


INTEGERS = ("torch.randint(9, (4, 6), generator=g)",)


@pytest.mark.parametrize(
    ("language", "of", "words"),
    [
        ("wgsl", program("x0.double()"), "float64; WGSL has float32"),
        ("wgsl", program("x0.long()"), "a float that is made an integer may pass 32 bits"),
        ("wgsl", program("x0 * x0", inputs=INTEGERS), "mul of integers may pass 32 bits"),
        ("wgsl", program("x0.sum(1)", inputs=INTEGERS), "sum of integers may pass 32 bits"),
        ("wgsl", program("x0 + x0 + x0", inputs=INTEGERS), "add of integers may pass 32 bits"),
        ("wgsl", program("torch.add(x0, x0, alpha=3)", inputs=INTEGERS), "add of integers may pass 32 bits"),
        ("wgsl", program("x0 + 2**30", inputs=INTEGERS), "add of integers may pass 32 bits"),
        ("opencl", program("torch.sort(x0).values"), "torch computes"),
        ("wgsl", program("torch.erfc(x0)"), "WGSL has no erfc"),
        (
            "wgsl",
            program("x0.cumsum(0)", inputs=("torch.randn(65536, 2, generator=g)",)),
            "loops more than 65535",
        ),
        (
            "wgsl",
            program(
                "F.avg_pool1d(x0, 128).sigmoid().sum((1, 2))",
                inputs=("torch.randn(1, 8, 192000, generator=g)",),
            ),
            "loops more than 65535",  # 12,000 rows, each joined across items in six steps
        ),
    ],
)
def test_what_has_no_form_is_refused(language, of, words):
    case = case_of(of) if "sort" not in str(of) else None
    graph = case.graph if case else graph_only(of)
    with pytest.raises(Unprintable, match=words):
        PRINTERS[language](lower(graph), graph)


def graph_only(of):
    from benchmarks.random_graphs import _Problem

    from kernelwright.compiler.graph import from_captured
    from kernelwright.records import Workload
    from kernelwright.tasks.capture import capture

    specs = tuple(TensorSpec(name="x0", shape=tuple(t.shape), dtype="float32") for t in of.inputs())
    workload = Workload(name="here", arguments=specs)
    return from_captured(capture(_Problem(of), workload), workload)


def test_sizes_give_way_to_words_of_the_language():
    inner = Size("inner", (8, 4))
    loop = Loop("i0", Extent(inner * 2), (Store("out", (Position("i0"),), Literal(1.0)),))
    buffers = (
        Buffer("x", "float32", (inner,), "argument", 0),
        Buffer("out", "float32", (inner * 2,), "output", 1),
    )
    program = Program("out", buffers, (Kernel("k", (loop,)),), {"inner": (0, 0)}, guards=("inner <= 8",))
    found = renamed(program, frozenset({"inner"}))
    assert dict(found.symbols) == {"inner_": (0, 0)} and found.guards == ("inner_ <= 8",)
    assert str(found.buffers[1].shape[0]) == "(inner_ * 2)" == str(found.steps[0].body[0].end.size)


PRODUCTS = program("x0 @ x1", "v0 @ x1", inputs=("torch.randn(9, 9, generator=g)",) * 2)


def test_opencl_kernels_that_differ_in_names_alone_are_one_function():
    case, tiles = lowered(PRODUCTS)
    text = opencl.render(tiles, case.graph).sources[0].text
    assert [step.name for step in tiles.steps] == ["mm_kernel", "mm_1_kernel"]
    assert text.count("// kernel: mm_kernel(") == 2 and text.count("__kernel void") == 1


KINDS = {
    "softmax": program("torch.softmax(x0, 1)"),
    "columns": program("torch.softmax(x0, 0)"),
    "variance": program("x0.var(1, correction=1)"),
    "everything": program("x0.sum()"),
    "logsumexp": program("torch.logsumexp(x0, (1,))"),
    "scan": program("x0.cumsum(1)"),
    "product": program("x0 @ x0.t()"),
    "functions": program(
        "F.gelu(x0) + F.mish(x0) + F.elu(x0) + F.softplus(x0)", "v0 + torch.tanh(x0) + torch.erf(x0) + F.silu(x0)",
        "v1 + torch.log(x0.abs() + 1e-3) + torch.expm1(x0) + torch.log1p(x0.abs()) + F.hardswish(x0)",
        "v2 + F.gelu(x0, approximate='tanh') + F.logsigmoid(x0) + torch.rsqrt(x0.abs() + 0.1)",
    ),
    "argmax": program("x0.argmax(1)", inputs=("torch.zeros(3, 200)",)),
    "integers": program(
        "x0.clamp(-3, 5)", "torch.where(v0 > 2, -v0, v0 + x0).amax(1)",
        inputs=("torch.randint(-9, 10, (3, 70), generator=g)",),
    ),
    "bits": BITS,
    "products": PRODUCTS,
    "bools": program("~(x0 > 0)", "x1.logical_and(v0)", "v1.float().sum(1) + x2[x3]", inputs=(
        "torch.randn(3, 70, generator=g)", "torch.rand(3, 70, generator=g) > 0.5",
        "torch.randn(5, generator=g).half()", "torch.tensor([4, 0, 3])",
    )),
    "windows": program("F.max_pool1d(x0.unsqueeze(0), 3, stride=2, padding=1)"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("language", [pytest.param(n, marks=needs[n]) for n in PRINTERS])
def test_printed_kernels_mean_what_the_graphs_mean(language, tmp_path):
    found = list(ran(language, map(case_of, KINDS.values()), tmp_path))
    assert len(found) == len(KINDS)
    for case, outputs in found:
        why = case.difference(outputs)
        assert why is None, f"{why}\n{case.program}"


HALVES = ("bfloat16", "float16", "int64", "bool", "float32")
RANDOM = {"wgsl": (20, [("float32",), HALVES]), "opencl": (8, [("float32",), HALVES])}
"""How many programs of which dtypes; PoCL takes a second to compile a kernel."""


@pytest.mark.long
@pytest.mark.parametrize("language", [pytest.param(n, marks=needs[n]) for n in PRINTERS])
def test_random_programs_mean_the_same_on_the_device(language, tmp_path):
    seeds, dtypes = RANDOM[language]
    cases = [case_of(random_program(seed, dtypes=of)) for of in dtypes for seed in range(seeds)]
    found = list(ran(language, cases, tmp_path))
    assert len(found) >= len(cases) // 3
    for case, outputs in found:
        why = case.difference(outputs)
        assert why is None, f"{why}\n{case.program}"


def test_argmax_is_joined_across_items_with_its_place():
    case, tiles = lowered(KINDS["argmax"])
    text = opencl.render(tiles, case.graph).sources[0].text
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in text and "_index" in text


@pytest.mark.parametrize(("columns", "loops"), [(6, False), (130, True)])
def test_a_row_of_fewer_elements_than_items_needs_no_loop(columns, loops):
    case, rows = lowered(program("torch.softmax(x0, 1)", inputs=(f"torch.randn(5, {columns}, generator=g)",)))
    text = opencl.render(rows, case.graph).sources[0].text
    assert ("+= 64" in text) == loops and (f"if (item < {columns})" in text) != loops
