from pathlib import Path

import pytest
import torch

from kernelwright.errors import InputError
from kernelwright.languages import wgsl as module_under_test
from kernelwright.languages._process import Finished
from kernelwright.languages._stages import Stages
from kernelwright.languages.wgsl import WGSL, Program
from kernelwright.records import BuildStatus, Candidate
from kernelwright.sandbox import Pool
from kernelwright.tasks import Problem, load_task
from kernelwright.verify import verify

from .conftest import one_file, spec

needs_adapter = pytest.mark.needs("WebGPU adapter")
TWO_KERNELS = """
// arguments: x, y
// launch: rows = x.shape[0]
// launch: columns = x.shape[1]
// temporary: total = float32[rows]
// kernel: sums(x, total)
// launch: groups = cdiv(rows, 64)
// kernel: divide(x, total, y)
// launch: groups = cdiv(rows * columns, 64)
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> total: array<f32>;
override rows: i32;
override columns: i32;
@compute @workgroup_size(64)
fn sums(@builtin(global_invocation_id) id: vec3u) {
  let row = i32(id.x);
  if (row >= rows) { return; }
  var sum = 0.0;
  for (var c = 0; c < columns; c++) { sum += x[row * columns + c]; }
  total[row] = sum;
}
@compute @workgroup_size(64)
fn divide(@builtin(global_invocation_id) id: vec3u) {
  let i = i32(id.x);
  if (i < rows * columns) { y[i] = x[i] / total[i / columns]; }
}
"""
TASK = """
import kernelwright as kw


@kw.task(x="float32[rows, columns]", workloads=[{"rows": 7, "columns": 33}])
def scale(x):
    return 2.5 * x
"""


def _load(settings, candidate, *outputs):
    language = WGSL(settings)
    build = language.build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    return language.load(candidate, Path(build.artefact), outputs)


def _documented(example):
    source, entry = example(module_under_test)
    return Candidate(sources=(source,), language="wgsl", entry=entry, style="destination")


@pytest.mark.parametrize(
    ("found", "words"), [(False, "no wgpu"), (True, "no WebGPU adapter")], ids=["package", "driver"]
)
def test_without_wgpu_or_a_driver_it_says_how_to_get_it(fresh, monkeypatch, found, words):
    nothing = Finished(returncode=1, output="no adapter", timed_out=False, time_s=0.0)
    monkeypatch.setattr(module_under_test, "find_spec", lambda _: found or None)
    monkeypatch.setattr(module_under_test, "run_tool", lambda *_, **__: nothing)
    monkeypatch.setattr(module_under_test, "described", module_under_test.described.__wrapped__)
    language = WGSL(fresh)
    said = language.available()
    assert not said.ok and words in said.what
    assert "kernelwright[webgpu]" in said.remedy and "mesa-vulkan-drivers" in said.remedy
    assert language.build(one_file("", "wgsl", "k.wgsl:f", "destination")).status is BuildStatus.UNAVAILABLE


@needs_adapter
class TestRuns:
    def test_the_documented_example(self, settings, example):
        scale = _load(settings, _documented(example), spec(5, 77))
        for shape in ((5, 77), (5, 77), (1,), (129,)):
            x = torch.randn(shape)
            assert torch.equal(scale.bind((spec(*shape),))(x), 2.5 * x)

    def test_other_dtypes_and_empty_tensors_are_unsupported(self, settings, example):
        scale = _load(settings, _documented(example), spec(5))
        for x in (torch.ones(5, dtype=torch.float64), torch.ones(0)):
            with pytest.raises(NotImplementedError, match=r"^Unsupported"):
                scale(x)

    def test_half_precision_is_made_wide_and_back(self, settings, example):
        scale = _load(settings, _documented(example), spec(5, dtype="bfloat16"))
        x = torch.randn(5).bfloat16()
        assert torch.equal(scale(x), (2.5 * x.float()).bfloat16())

    def test_integers_that_fit_are_narrow_in_their_buffer(self, settings, example):
        source = _documented(example).sources[0].text.replace("array<f32>", "array<i32>").replace("2.5", "2")
        scale = _load(
            settings, one_file(source, "wgsl", "k.wgsl:scale", "destination"), spec(3, dtype="int64")
        )
        x = torch.tensor([-7, 0, (1 << 30) - 1])
        assert torch.equal(scale(x), 2 * x)
        with pytest.raises(NotImplementedError, match=r"^Unsupported: x holds integers of 2\^30 or more"):
            scale(x + 1)
        with pytest.raises(
            NotImplementedError, match=r"^Unsupported: x is not a tensor of int32, int64, bool"
        ):
            scale(x.double())

    def test_two_kernels_and_a_buffer_between_them(self, settings):
        candidate = one_file(TWO_KERNELS, "wgsl", "k.wgsl:divide", "destination")
        for shape in ((3, 5), (70, 9)):
            x = torch.rand(shape) + 0.5
            got = _load(settings, candidate, spec(*shape))(x)
            torch.testing.assert_close(got, x / x.sum(1, keepdim=True))

    def test_a_wrong_number_of_arguments_is_named(self, settings, example):
        with pytest.raises(InputError, match=r"binds 2 buffers \(x, y\); the task passes 3"):
            _load(settings, _documented(example), spec(3))(torch.ones(3), torch.ones(3))

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("2.5", "two", "two"),
            pytest.param("fn scale", "fn other", "no @compute function 'scale'", marks=pytest.mark.long),
            pytest.param("groups", "grops", "global", marks=pytest.mark.long),
        ],
    )
    def test_what_cannot_be_built_says_why(self, settings, example, old, new, words):
        candidate = _documented(example)
        text = candidate.sources[0].text.replace(old, new)
        broken = candidate.model_copy(
            update={"sources": (candidate.sources[0].model_copy(update={"text": text}),)}
        )
        build = WGSL(settings).build(broken)
        assert build.status is BuildStatus.FAILED
        assert words in build.diagnostics

    @pytest.mark.parametrize(("factor", "status"), [("2.5", "accepted"), ("2.4", "rejected")])
    def test_a_candidate_is_judged_in_a_closed_worker(self, settings, example, tmp_path, factor, status):
        (tmp_path / "task.py").write_text(TASK)
        candidate = _documented(example)
        text = candidate.sources[0].text.replace("2.5", factor)
        candidate = candidate.model_copy(
            update={"sources": (candidate.sources[0].model_copy(update={"text": text}),)}
        )
        build = WGSL(settings).build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        problem = Problem(load_task(tmp_path / "task.py"))
        with Pool(settings, arena_bytes=16 << 20) as pool:
            found = verify(problem, candidate, build, pool=pool, depth="screen")
        assert found.status == status, [f for f in found.findings if f.status != "pass"]


class TestSource:
    def test_buffers_come_in_the_order_of_their_bindings(self):
        program = Program(
            "// launch: groups = 1\n@group(0) @binding(1) var<storage, read_write> b: array<f32>;\n"
            "@group(0) @binding(0) var<storage, read> a: array<f32>;\noverride n: i32;\n",
            "f",
        )
        assert (program.called, program.written, program.overrides) == (("a", "b"), {"b"}, {"n"})

    def test_a_buffer_that_no_line_makes_is_refused(self):
        with pytest.raises(InputError, match=r"'sum' is passed 'z', which no line makes; expected one of x"):
            Stages("// arguments: x\n// kernel: sum(z)\n// launch: global = 1\n")

    def test_temporaries_have_the_size_that_the_arguments_give(self):
        stages = Program(TWO_KERNELS, "divide").stages
        views, sizes = stages.views({"x": module_under_test.View((6, 4), "float32"), "y": None})
        assert sizes == {"total": 6} and views["total"].shape == (6,)
