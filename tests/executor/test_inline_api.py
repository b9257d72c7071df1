"""What extensions use of torch's C++ API and of pybind11, as people write it, works in the executor's small torch."""

from pathlib import Path

import pytest
import torch

from kernelwright.executor._extension import reason
from kernelwright.executor.device import plain
from kernelwright.executor.inline import _flat, _signature
from kernelwright.languages import get_language
from kernelwright.languages._inline import calls_in
from kernelwright.records import BuildStatus, Candidate, SourceFile

CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline

WIDTH = 8
source = f"""
#include <torch/extension.h>
#include <ATen/AccumulateType.h>
#include <ATen/cuda/Atomic.cuh>
#include <c10/util/Half.h>
#include <pybind11/stl.h>

template <typename scalar_t>
__global__ void columns(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                        torch::PackedTensorAccessor64<scalar_t, 1> out, float scale) {{
  using acc_t = at::acc_type<scalar_t, true>;
  acc_t sum = 0;
  const int column = blockIdx.x * {WIDTH} + threadIdx.x;
  if (column >= x.size(1)) return;
  for (int row = 0; row < x.size(0); ++row) sum += x[row][column] * scale;
  gpuAtomicAdd(&out[column], static_cast<scalar_t>(std::max(sum, acc_t(FLOOR))));
}}
torch::Tensor sums(const torch::Tensor& x, std::vector<int64_t> shape, const std::string& how,
                   c10::optional<torch::Tensor> bias, double scale) {{
  TORCH_CHECK(how == "sum" || how == "mean", "how is ", how);
  auto out = torch::zeros(shape, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.type(), "sums", ([&] {{
    columns<scalar_t><<<(x.size(1) + {WIDTH} - 1) / {WIDTH}, {WIDTH}>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), out.packed_accessor64<scalar_t, 1>(), scale);
  }}));
  if (bias) out = out + *bias;
  return how == "mean" ? at::div(out, x.size(0)) : out;
}}
std::tuple<torch::Tensor, double> host(std::vector<torch::Tensor> parts) {{
  auto all = torch::cat(parts, 1);
  return {{torch::relu(torch::matmul(all, all.t())).sum({{0, 1}}, true) * 2, all.mean().item<double>()}};
}}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
  m.doc() = "sums";
  m.def("sums", &sums, "sums of columns", py::arg("x"), py::arg("shape"), py::arg("how") = "sum",
        py::arg("bias") = py::none(), py::arg("scale") = 0.5);
  m.def("host", [](std::vector<torch::Tensor> parts) {{ return host(parts); }});
}}
"""
module = load_inline("sums", "", source, extra_cuda_cflags=["-O3", "-DFLOOR=-1e30f", "--use_fast_math"])

class ModelNew:
    def forward(self):
        return module
'''


@pytest.fixture(scope="module")
def extension():
    import torch.utils.cpp_extension as builder

    candidate = Candidate(
        sources=(SourceFile(path="k.py", text=CANDIDATE),),
        language="cuda",
        entry="k.py:ModelNew",
        style="module",
    )
    build = get_language("cuda").build(candidate)
    assert build.status is BuildStatus.OK, build.diagnostics
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "load_inline", builder.load_inline)
        model = get_language("cuda").load(candidate, Path(build.artefact), ())()
        yield model.forward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_accessors_index_every_type_with_its_strides(extension, dtype):
    x = torch.arange(30, dtype=dtype).reshape(5, 6)
    assert torch.equal(extension.sums(x, [6]), x.sum(0) / 2)
    assert torch.equal(extension.sums(x.t(), [5], scale=1.0), x.sum(1))


@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_arguments_have_names_defaults_and_lists(extension):
    x = torch.ones(4, 3)
    given = extension.sums(shape=(3,), x=x, how="mean", bias=torch.ones(3), scale=2)
    assert torch.equal(given, torch.full((3,), 9 / 4))
    with pytest.raises(RuntimeError, match="how is median"):
        extension.sums(x, [3], "median")
    with pytest.raises(RuntimeError, match="expected a number"):
        extension.sums(x, [3], "sum", None, x)
    with pytest.raises(TypeError, match="missing a required argument: 'shape'"):
        extension.sums(x)
    with pytest.raises(RuntimeError, match="\"sums\" not implemented for 'Int'"):
        extension.sums(x.int(), [3])


@pytest.mark.needs("no GPU")
@pytest.mark.needs("nvcc")
def test_host_code_calls_what_torch_computes(extension):
    parts = [torch.randn(2, 3), torch.randn(2, 4)]
    total, mean = extension.host(parts)
    x = torch.cat(parts, 1)
    assert torch.equal(total, (x @ x.t()).relu().sum((0, 1), keepdim=True) * 2)
    assert mean == x.mean().item()


def test_sources_and_flags_are_read_from_arguments_of_either_kind():
    (call,) = calls_in(CANDIDATE, ("extra_cuda_cflags",))
    assert "blockIdx.x * 8 + threadIdx.x" in call["cuda_sources"]
    assert call["extra_cuda_cflags"] == ["-O3", "-DFLOOR=-1e30f", "--use_fast_math"]
    (call,) = calls_in(
        "s = 'N'.replace('N', '4')\nload_inline('a', cuda_sources=s.strip(), functions=f'{1}')"
    )
    assert call == {"cuda_sources": "4", "functions": "1"}


def test_a_list_is_handed_over_after_its_length():
    assert list(_flat([2, [3, 4], "ab", None])) == [2, 2, 3, 4, 2, 97, 98, None]
    name, signature = _signature("f\tx\teps=1e-05\thow='a'")
    assert (name, str(signature)) == ("f", "(x, eps=1e-05, how='a')")


def test_a_header_that_is_not_here_is_named_in_one_sentence():
    said = reason(
        "cuda_sources:4:10: fatal error: cudnn.h: No such file or directory\ncompilation terminated."
    )
    assert said == "cudnn.h, which cuda_sources:4 includes, is not here, nor is its library"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z1kPFvvE", "k"),
        ("_Z1kIL1E2EEvPf", "k<(E)2>"),
        ("_ZN1a1bE", "a::b"),
        ("_Zjunk", "_Zjunk"),
        ("k", "k"),
    ],
)
def test_a_kernel_is_called_what_its_source_calls_it(symbol, name):
    assert plain(symbol) == name
