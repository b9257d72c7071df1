"""The Triton printer: what it prints, what it refuses, and printed kernels in the interpreter against float64."""

import ast

import pytest
import torch
from benchmarks.random_graphs import case_of
from benchmarks.triton_coverage import LAYOUTS, fault, run_printed
from tests.compiler.test_random_programs import BITS

from kernelwright.compiler.actions import State, offered, taken
from kernelwright.compiler.graph import read
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import Faults
from kernelwright.compiler.policy._starts import in_parts
from kernelwright.compiler.printers import Unprintable, choices_of, forms_of, printer_of, triton
from kernelwright.compiler.printers.triton import cost
from kernelwright.compiler.printers.triton._launches import launches
from kernelwright.compiler.printers.triton._lines import tidied
from kernelwright.compiler.tile import Kernel
from kernelwright.languages import get_language
from kernelwright.languages.triton import specialisations
from kernelwright.tasks import Problem, load_task
from kernelwright.testing import RandomProgram, random_program

pytestmark = pytest.mark.needs("triton")


def program(*lines, inputs=("torch.randn(5, 130, generator=g)",)):
    named = tuple((f"v{i}", text) for i, text in enumerate(lines))
    return RandomProgram(0, inputs, named, (named[-1][0],))


def lowered(of):
    case = case_of(of)
    return case, lower(case.graph)


def text_of(of, **choice):
    case, tiles = lowered(of)
    return triton.render(tiles, case.graph, parameters=choice).sources[0].text


def ways(of, lanes="auto"):
    _, tiles = lowered(of)
    return [launch.way for step in tiles.steps for launch in launches(step, lanes)]


def test_it_is_found_by_its_language_and_says_what_may_be_chosen():
    assert printer_of("triton") is triton.render
    _, rows = lowered(program("torch.softmax(x0, 1)"))
    _, product = lowered(program("x0 @ x0.t()", inputs=("torch.randn(40, 40, generator=g)",)))
    assert {"block", "lanes"} <= {p.name for p in choices_of("triton", rows).parameters}
    assert {"block_m", "precision"} <= {p.name for p in choices_of("triton", product).parameters}
    assert choices_of("cpp", rows) is None


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (program("x0.exp()"), ["points"]),
        (program("torch.softmax(x0, 1)"), ["rows"]),
        (program("x0.amax(0)"), ["points"]),
        (program("x0.cumsum(1)"), ["rows"]),
        (program("x0.sum()"), ["points", "single"]),
    ],
)
def test_lanes_run_where_neighbours_lie(of, expected):
    assert [w if w != "single" or len(expected) > 1 else "rows" for w in ways(of)] == expected


def test_a_row_that_fits_is_read_once():
    text = text_of(program("torch.softmax(x0, 1)"))
    assert text.count("tl.load(") == 1 and "for start in" not in text
    assert text.count("def softmax_kernel") == 1 and "keep_dims=True" in text


def test_a_long_row_is_read_in_tiles(monkeypatch):
    monkeypatch.setattr("kernelwright.compiler.printers.triton._body.WIDEST", 64)
    text = text_of(program("torch.softmax(x0, 1)"), block=32)
    assert text.count("for start in range(0, 130, BLOCK)") == 3
    assert fault(program("torch.softmax(x0, 1)"), block=32) is None


def test_a_product_is_tiles_with_what_surrounds_it():
    square = ("torch.randn(40, 40, generator=g)",)
    text = text_of(program("F.relu(x0.exp() @ x0) + 1", inputs=square))
    assert text.count("@triton.jit") == 1 and "tl.dot(" in text and "input_precision=PRECISION" in text
    half = program("x0 @ x0", inputs=("torch.randn(40, 40, generator=g).half()",))
    assert ".to(tl.float32)" not in text_of(half) and "PRECISION" not in text_of(half)


def test_evidence_names_every_kernel_with_its_arguments():
    text = text_of(program("x0 / x0.norm()"))
    found = specialisations(text)
    defined = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    assert [e["kernel"] for e in found] == ["div_kernel_0", "div_kernel_1"]
    for entry in found:
        names = [a.arg for a in defined[entry["kernel"]].args.args]
        assert names == [*entry["signature"], *entry["constexprs"]]


def test_names_that_mean_something_are_left_to_the_language():
    of = RandomProgram(0, ("torch.rand(7, generator=g)",), (("v0", "torch.log1p(x0)"),), ("v0",))
    assert fault(of) is None and "log1p_" in text_of(of)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (program("torch.atan(x0)"), "Triton has no atan"),
        (
            program("x0.half().scatter_add(1, torch.zeros(5, 130).long(), x0.half())"),
            "no atomic sum of float16",
        ),
    ],
)
def test_what_has_no_form_is_refused_by_name(of, words):
    case, tiles = lowered(of)
    with pytest.raises(Unprintable, match=words):
        triton.render(tiles, case.graph)


KINDS = {
    "softmax": program("torch.softmax(x0, 1)"),
    "columns": program("torch.softmax(x0, 0)"),
    "variance": program("x0.var(1, correction=1)"),
    "variance of all": program("x0.var()"),
    "norm": program("F.layer_norm(x0, (130,)) * x0.norm()"),
    "logsumexp": program("torch.logsumexp(x0, (1,))"),
    "argmax": program("x0.argmax(1)"),
    "argmax of all": program("x0.argmax()"),
    "scans": program("x0.cumsum(1)", "x0.sigmoid().cumprod(1) + v0"),
    "product": program("F.gelu(x0 @ x0.t() + 1)", inputs=("torch.randn(40, 70, generator=g)",)),
    "scatter": program("torch.zeros(9, 130).index_add(0, torch.tensor([0, 3, 3, 8, 0]), x0)"),
    "windows": program("F.max_pool1d(x0.unsqueeze(0), 3, stride=2, padding=1)"),
    "bits": BITS,
    "functions": program(
        "F.gelu(x0) + F.mish(x0) + F.elu(x0) + F.softplus(x0)", "v0 + torch.tanh(x0) + torch.erf(x0) + F.silu(x0)",
        "v1 + torch.log(x0.abs() + 1e-3) + torch.expm1(x0) + torch.log1p(x0.abs()) + F.hardswish(x0)",
        "v2 + F.gelu(x0, approximate='tanh') + F.logsigmoid(x0) + torch.rsqrt(x0.abs() + 0.1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_printed_kernel_means_what_the_graph_means(name):
    assert fault(KINDS[name]) is None
    case, tiles = lowered(KINDS[name])
    assert not tiles.natives and triton.render(tiles, case.graph)


def test_tiles_of_rows_are_joined(monkeypatch):
    monkeypatch.setattr("kernelwright.compiler.printers.triton._body.WIDEST", 16)
    for name in ("variance", "logsumexp", "argmax", "scans"):
        assert fault(KINDS[name], block=32, lanes="inner") is None, name


def test_nan_wins_and_the_first_of_equals_is_kept():
    x = torch.zeros(5, 130)
    (first,) = run_printed(_of("x0.argmax(1)"), [x])
    assert first.tolist() == [0] * 5
    x[2, 7] = float("nan")
    (largest,) = run_printed(_of("x0.amax(1)"), [x])
    assert largest.isnan().tolist() == [False, False, True, False, False]


def _of(line):
    case, tiles = lowered(program(line))
    return triton.render(tiles, case.graph)


@pytest.mark.parametrize(
    "choice", [LAYOUTS[0], pytest.param(LAYOUTS[1], marks=pytest.mark.long)], ids=["points", "rows"]
)
def test_random_programs_mean_the_same_in_triton(choice):
    for seed in range(12, 24):
        one = random_program(seed, dtypes=("float32", "float16", "int64", "bool"), steps=4)
        assert fault(one, **choice) is None, f"seed {seed}\n{one}"


def test_rows_that_fit_are_told_from_those_read_in_tiles_in_one_kernel():
    inputs = ("torch.randn(1, 8, 4096, generator=g)", "torch.randn(8, generator=g)")
    groups = program("F.group_norm(x0, 1, x1)", inputs=inputs)
    text = text_of(groups)
    assert "for start in range(" in text and "column = tl.arange(" in text
    assert fault(groups) is None


@pytest.mark.long
@pytest.mark.slow
def test_printed_kernels_compile_for_gpus_that_are_not_here():
    language = get_language("triton")
    build = language.build(_of("torch.softmax(x0, 1)"), deadline_s=200)
    assert build.findings == () and build.evidence["sm_90.spill_bytes"] == 0
    assert build.evidence["gfx942.registers"] > 0


def test_lines_lose_what_changes_nothing():
    assert tidied("  y = ((a * b) + c)") == ["  y = a * b + c"]
    long = tidied(f"y = tl.load(pointer, mask={'m' * 90}, other=0.0)")
    assert long[0] == "y = tl.load(" and long[1:3] == ["    pointer,", f"    mask={'m' * 90},"]
    assert tidied("for i in range((n)):") == ["for i in range((n)):"]


def test_every_step_of_a_program_is_launched():
    _, tiles = lowered(program("x0.cumsum(1).softmax(0)"))
    names = [launch.name for step in tiles.steps if isinstance(step, Kernel) for launch in launches(step)]
    assert len(names) >= 2 and all(
        f"def {name}(" in text_of(program("x0.cumsum(1).softmax(0)")) for name in names
    )


def test_loops_with_values_named_between_them_are_one_grid():
    drawn = ("1, 2, 20, 20", "8, 2, 5, 5", "2, 1, 1")
    inputs = tuple(f"torch.randn({shape}, generator=g)" for shape in drawn)
    of = program("F.conv2d(F.max_pool2d(F.relu(x0 + x2), 2), x1)", inputs=inputs)
    assert "inside = index < 1 * 2 * 6 * 6 * 5 * 5" in text_of(of) and fault(of) is None


def test_short_loops_within_one_another_are_not_all_written_out():
    of = program("F.avg_pool3d(x0, 4)", inputs=("torch.randn(1, 2, 8, 8, 8, generator=g)",))
    text = text_of(of)
    assert text.count(" in tl.static_range(4)") == 2 and text.count(" in range(4)") == 1
    assert fault(of) is None


def test_exact_products_have_tiles_that_no_compiler_spills():
    square = ("torch.randn(40, 40, generator=g)",)
    exact = text_of(program("x0 @ x0", inputs=square))
    assert "BLOCK_M=64" in exact and "BLOCK_N=128" in exact
    assert "BLOCK_M=32" in text_of(program("x0[:20] @ x0", inputs=square))
    busy = " + ".join(f"x0[{i}]" for i in range(50))
    assert "BLOCK_M=16" in text_of(
        program(f"({busy}) @ x0[0]", inputs=("torch.randn(50, 40, 40, generator=g)",))
    )
    assert "BLOCK_M=64" in text_of(
        program("x0.half() @ x0.half()", inputs=("torch.randn(40, 40, generator=g).half()",))
    )
    assert "BLOCK_M=16" in text_of(program("x0 @ x0", inputs=square), block_m=16)


def test_sizes_that_are_sums_divide_positions_as_a_whole(tmp_path):
    file = tmp_path / "padded.py"
    file.write_text(
        "import torch\nfrom torch.nn import functional as F\n\nN, H, W = 3, 5, 7\n\n\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return F.pad(x, (1, 2, 2, 1)).exp()\n\n\n"
        "def get_inputs():\n    return [torch.randn(N, 2, H, W)]\n\n\ndef get_init_inputs():\n    return []\n"
    )
    problem = Problem(load_task(file))
    graph = read(problem)
    candidate = triton.render(lower(graph), graph)
    assert "// ((h + 3) * (w + 3))" in candidate.sources[0].text
    x = torch.randn(3, 2, 5, 7)
    (found,) = run_printed(candidate, [x])
    assert torch.allclose(found, torch.nn.functional.pad(x, (1, 2, 2, 1)).exp())


@pytest.mark.parametrize("name", ["softmax", "variance of all", "product", "windows", "scatter"])
def test_positions_of_64_bits_say_the_same(name, monkeypatch):
    monkeypatch.setattr("kernelwright.compiler.printers.triton._program._INT32", 8)
    assert "tl.int64" in text_of(KINDS[name])
    assert fault(KINDS[name]) is None


def test_a_convolution_of_the_library_leaves_its_bias_to_what_follows():
    inputs = (
        "torch.randn(1, 3, 6, 6, generator=g)",
        "torch.randn(4, 3, 3, 3, generator=g)",
        "torch.randn(4, generator=g)",
    )
    case, _ = lowered(program("F.relu(F.conv2d(x0, x1, x2))", inputs=inputs))
    for forms, text in (("cpp", "x2"), ("triton", "None")):
        (library,) = (a for a in offered(forms_of(forms)) if a.name == "library")
        after = taken(State(case.graph, case.graph), library, "convolution")
        candidate = triton.render(after.program, after.graph)
        assert f"aten.convolution.default(x0, x1, {text}," in candidate.sources[0].text
        assert case.difference(run_printed(candidate, case.inputs)) is None


def test_attention_that_torch_computes_runs_on_any_device():
    inputs = ("torch.randn(2, 3, 8, 16, generator=g)",)
    case, _ = lowered(
        program("F.scaled_dot_product_attention(x0, x0 + 1, x0, is_causal=True) * 2", inputs=inputs)
    )
    (library,) = (a for a in offered(forms_of("triton")) if a.name == "library")
    state = State(case.graph, case.graph)
    state = taken(state, library, next(iter(library.sites(state))))
    candidate = triton.render(state.program, state.graph)
    assert "aten.scaled_dot_product_attention.default(" in candidate.sources[0].text
    assert "aten._scaled" not in candidate.sources[0].text
    assert case.difference(run_printed(candidate, case.inputs)) is None


@pytest.mark.parametrize(
    ("lines", "shape"),
    [
        (
            (
                "x0.var((0, 2, 3), correction=0)",
                "F.batch_norm(x0, None, None, training=True) + v0[:, None, None]",
            ),
            "16, 6, 16, 20",
        ),
        (("x0.sum(0)",), "4100, 5"),
        (("x0.exp().logsumexp(1)",), "3, 5000"),
    ],
    ids=["twins of a variance", "columns", "rows cut with a rest"],
)
def test_few_long_reductions_run_in_parts_by_many_programs(lines, shape):
    case, _ = lowered(program(*lines, inputs=(f"torch.randn({shape}, generator=g)",)))
    (start,) = in_parts(State(case.graph, case.graph), offered(forms_of("triton")), Faults(pytest.fail))[:1]
    assert "shares" in start.text
    candidate = triton.render(start.program, start.graph)
    assert case.difference(run_printed(candidate, case.inputs)) is None
    assert not in_parts(State(case.graph, case.graph), offered(forms_of("cpp")), Faults(pytest.fail))


@pytest.mark.parametrize(("length", "pays"), [(5000, False), (1_000_000, True)])
def test_rows_that_are_few_and_long_are_written_by_several_programs_each(length, pays):
    inputs = (f"torch.randn(3, {length}, generator=g)",)
    case, _ = lowered(program("(x0 - x0.mean(1, keepdim=True)) * 2", inputs=inputs))
    (start,) = in_parts(State(case.graph, case.graph), offered(forms_of("triton")), Faults(pytest.fail))[:1]
    *_, last = (launch for step in start.program.steps for launch in launches(step))
    assert last.way == "points" and last.count == 3 * length
    assert (cost(start.program).time_us < cost(lower(case.graph)).time_us) is pays
