"""The model's graph with kernels in place of regions: the same answers, whatever the kernels are written in."""

import importlib
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.models.conftest import written
from torch import nn

from kernelwright.config import Settings
from kernelwright.errors import InputError
from kernelwright.languages import get_language
from kernelwright.languages.prepared import prepared
from kernelwright.models import capture_model, load_model, regions_of
from kernelwright.models._assemble import Accepted, assemble
from kernelwright.models._task import graph_text, region_sketch, region_text
from kernelwright.models._timing import timed
from kernelwright.models.pieces import Unprintable
from kernelwright.records import Candidate, SourceFile
from kernelwright.sandbox import Payload, Pool
from kernelwright.tasks.forms._source import run_source

CPP = """
#include "kernelwright.h"
#include <cmath>

static float scale_of(const float* x, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return 1.0f / std::sqrt(sum / n + 1e-5f);
}

KW_KERNEL(norm) {
  auto x = args.tensor<const float>(0), w = args.tensor<const float>(1);
  auto out = args.tensor<float>(2);
  const int64_t rows = x.shape(0), n = x.shape(1);
  for (int64_t r = 0; r < rows; ++r) {
    const float scale = scale_of(x.data() + r * n, n);
    for (int64_t i = 0; i < n; ++i) out.data()[r * n + i] = x.data()[r * n + i] * scale * w.data()[i];
  }
}
"""
EXPERTS = """
import torch
import transformers.integrations.moe


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 8, 8))

    def forward(self, x):
        ends = torch.tensor([4, 8], dtype=torch.int32)
        return torch.ops.transformers.grouped_mm_fallback(x * 1.25, self.weight, offs=ends)


def build():
    torch.manual_seed(0)
    return Experts().eval(), (torch.randn(8, 8),)
"""
PACKING = """
import torch

def prepare(weights):
    return weights["w0"].t().contiguous(), weights["w1"]

def run(x, packed):
    return x @ packed[0] + packed[1]
"""


class Bench:
    """A captured model, and kernels for its regions."""

    def __init__(self, target, inputs=None):
        self.loaded = load_model(target, inputs)
        self.capture, whole = capture_model(self.loaded).whole, self.loaded.whole
        self.times = timed(self.capture, whole, seconds=0.0)
        self.regions = {r.label: r for r in regions_of(self.capture).regions}
        self.state = tuple(whole.state_dict())

    def accepted(self, label, text, path="kernel.py", symbol="run", **given):
        language = "cpp" if path.endswith(".cpp") else "torch"
        candidate = Candidate(
            sources=(SourceFile(path=path, text=text),), language=language, entry=f"{path}:{symbol}",
            style="destination" if language == "cpp" else "function", **given,
        )  # fmt: skip
        region = self.regions[label]
        return Accepted(region, region_sketch(self.capture, region, self.times), candidate)

    def candidate(self, *kernels):
        return assemble(self.capture, self.times, kernels, self.state, self.capture.weights)

    def call(self, *kernels, inputs=None):
        candidate = self.candidate(*kernels)
        language = get_language(candidate.language)
        build = language.build(candidate)
        assert build.status == "ok", build.diagnostics
        whole = self.loaded.whole
        loaded = language.load(candidate, Path(build.artefact or "."), ())
        kernel = prepared(loaded, self.state) or loaded
        with torch.no_grad():
            return kernel(*(inputs or whole.tensors), *whole.state_dict().values())


@pytest.fixture
def bench(small, monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    return Bench(small)


def native(bench):
    with torch.no_grad():
        return bench.loaded.module(*bench.loaded.args)


def test_the_graph_alone_computes_what_the_model_does(bench):
    assert torch.equal(bench.call(), native(bench))


def test_one_compiled_kernel_serves_every_use_with_its_own_weights(bench):
    for norm in bench.loaded.module.norms:
        torch.nn.init.normal_(norm.weight)
    kernel = bench.accepted("norms.0", CPP, "kernel.cpp", "norm")
    torch.testing.assert_close(bench.call(kernel), native(bench))
    assert bench.candidate(kernel).sources[0].text.count("= _part0(") == 3


def test_a_kernel_that_is_wrong_shows_so_it_is_the_kernel_that_runs(bench):
    wrong = bench.accepted("norms.0", CPP.replace("* scale *", "* scale * 2 *"), "kernel.cpp", "norm")
    assert not torch.allclose(bench.call(wrong), native(bench))


def test_kernels_with_the_same_names_inside_do_not_meet(bench):
    doubled = CPP.replace("KW_KERNEL(norm)", "KW_KERNEL(add)").replace(
        "1.0f / std::sqrt(sum / n + 1e-5f)", "0.0f"
    )
    doubled = doubled[: doubled.index("KW_KERNEL")] + (
        "KW_KERNEL(add) {\n  auto x = args.tensor<const float>(0), y = args.tensor<const float>(1);\n"
        "  auto out = args.tensor<float>(2);\n"
        "  for (int64_t i = 0; i < x.numel(); ++i)\n"
        "    out.data()[i] = x.data()[i] + y.data()[i] + scale_of(x.data(), 1);\n}\n"
    )
    add = next(
        label
        for label, r in bench.regions.items()
        if r.kind == "op" and label == "add" and len(r.texts[0].inputs) == 2
    )
    norm, other = (
        bench.accepted("norms.0", CPP, "kernel.cpp", "norm"),
        bench.accepted(add, doubled, "kernel.cpp", "add"),
    )
    if norm.region.overlaps(other.region):
        pytest.fail("the two regions should not overlap")
    torch.testing.assert_close(bench.call(norm, other), native(bench))


def test_what_a_kernel_adds_to_the_headers_namespace_finds_what_they_have(bench):
    text = CPP.replace(
        "static float scale_of",
        """namespace kw {
inline int64_t count(const Args& args) { return args.tensor<const float>(0).shape(1); }
}
static float scale_of""",
    ).replace("n = x.shape(1)", "n = kw::count(args)")
    kernel = bench.accepted("norms.0", text, "kernel.cpp", "norm")
    torch.testing.assert_close(bench.call(kernel), native(bench))


def test_weights_that_a_kernel_packs_are_packed_for_each_use(bench):
    kernel = bench.accepted("layers.0", PACKING)
    torch.testing.assert_close(bench.call(kernel), native(bench))
    assert bench.candidate(kernel).sources[0].text.count("_module0.prepare(") == 3


def test_other_shapes_are_declined(bench):
    with pytest.raises(NotImplementedError, match="Unsupported: input 0"):
        bench.call(inputs=[torch.randn(5, 16)])
    with pytest.raises(NotImplementedError, match="Unsupported: input 0"):
        bench.call(inputs=[torch.randn(16, 4).t()])


def test_what_cannot_be_combined_is_said(bench):
    with pytest.raises(InputError, match="compiler flag '-ffast-math' would hold for other kernels"):
        bench.candidate(bench.accepted("norms.0", CPP, "kernel.cpp", "norm", flags=("-ffast-math",)))
    other = bench.accepted("norms.0", CPP, "kernel.cpp", "norm")
    cuda = Accepted(other.region, other.task, other.candidate.model_copy(update={"language": "cuda"}))
    with pytest.raises(InputError, match="a kernel in cuda"):
        bench.candidate(cuda)


def test_a_model_with_a_kernel_in_triton_is_in_triton(bench):
    one = bench.accepted("norms.0", "def run(a0, w0):\n    return a0 * w0\n")
    triton = Accepted(one.region, one.task, one.candidate.model_copy(update={"language": "triton"}))
    assert [bench.candidate(k).language for k in (one, triton)] == ["torch", "triton"]


def test_on_a_gpu_what_the_processor_was_named_for_is_made_there(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))

    class Placed(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.tensor([1.0, 2.0])

        def forward(self, x):
            return (x + torch.arange(2, device=x.device)).to(x.device, torch.float64) * self.table

    bench = Bench(Placed(), (torch.ones(3, 2),))
    on_cpu = bench.candidate().sources[0].text
    bench.times = replace(bench.times, place="cuda:1")
    text = bench.candidate().sources[0].text
    assert on_cpu.count("torch.device('cpu')") == text.count("torch.device('cuda:1')") == 2
    assert text.count(".to('cuda:1')") == 1
    region = next(r for r in bench.regions.values() if "_to_copy" in " ".join(r.texts[0].lines))
    assert "device=a0.device" in region_text(bench.capture, region.texts[0], bench.times)
    assert "device=a0.device" in graph_text(bench.capture, bench.times)


def test_a_buffer_is_changed_as_the_model_changes_it_and_constants_are_computed_once(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))
            self.table = torch.tensor([1.0, 2.0])

        def forward(self, x):
            self.calls += 1
            return x * self.calls * self.table + torch.arange(2).float().cos(), self.table

    bench = Bench(Counting(), (torch.ones(2),))
    state = bench.loaded.module.calls
    got = bench.call()
    assert state.item() == 1.0
    torch.testing.assert_close(got[0], torch.tensor([1.0, 2.0]) + torch.arange(2).float().cos())
    text = bench.candidate().sources[0].text
    assert text.index("aten.cos.default(") < text.index("def run(")


@pytest.fixture
def calling(tmp_path, monkeypatch):
    """Make a model that calls an operator of a library of its own, and a kernel."""
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    written(
        tmp_path,
        "brings_twice.py",
        """
        import torch

        @torch.library.custom_op("brought::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(torch.empty_like)
        """,
    )
    library = importlib.import_module("brings_twice")

    class Calling(nn.Module):
        def forward(self, x):
            return library.twice(x.relu())

    yield Bench(Calling(), (torch.randn(4, 8),))
    sys.modules.pop("brings_twice", None)


def test_what_brings_an_operator_of_another_library_is_imported(calling):
    """A kernel's process has torch alone, and not the model."""
    assert torch.equal(calling.call(), native(calling))
    alone = graph_text(calling.capture, calling.times)
    for text in (calling.candidate().sources[0].text, alone):
        assert text.index("import brings_twice\n") < text.index("torch.ops.brought.twice")
    assert torch.equal(run_source(alone, "alone.py").Model()(*calling.loaded.args), native(calling))


def test_an_operator_that_no_other_process_can_import_is_named(calling):
    sys.modules["brings_twice"].__spec__ = None
    with pytest.raises(Unprintable, match=r"brought\.twice\.default is defined in 'brings_twice'"):
        calling.candidate()


@pytest.mark.long
@pytest.mark.needs("transformers")
def test_a_worker_loads_an_operator_of_transformers_between_kernels(tmp_path):
    bench = Bench(written(tmp_path, "experts.py", EXPERTS))
    made = bench.candidate(bench.accepted("mul", "def run(x):\n    return x * 1.25\n"))
    assert "= torch.ops.transformers.grouped_mm_fallback.default" in made.sources[0].text
    folders = {"KERNELWRIGHT_CACHE": str(tmp_path), "KERNELWRIGHT_STORE": str(tmp_path)}
    with (
        closing(Pool(Settings.from_environment(folders))) as pool,
        pool.worker(Payload(made), deadline_s=300.0) as worker,
    ):
        assert worker.loaded.content == made.key
