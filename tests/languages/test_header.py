from pathlib import Path

import pytest
import torch

from kernelwright.languages.cpp import Cpp
from kernelwright.records import BuildStatus

from .conftest import one_file, spec

pytestmark = pytest.mark.needs("C++ compiler")

CONVERT = """
    #include "kernelwright.h"
    KW_KERNEL(to_half) {{
      auto x = args.tensor<const float>(0);
      kw::store(x.data(), args.tensor<{type}>(1).data(), x.numel());
    }}
    KW_KERNEL(to_float) {{
      auto x = args.tensor<const {type}>(0);
      kw::load(x.data(), args.tensor<float>(1).data(), x.numel());
    }}
"""
CASES = [
    ("bfloat16", torch.bfloat16, ()),
    ("float16", torch.float16, ()),
    ("float16", torch.float16, ("-U__FLT16_MANT_DIG__",)),
]


def _kernels(settings, name, flags):
    language = Cpp(settings)
    made = []
    for symbol, out in (("to_half", name), ("to_float", "float32")):
        text = CONVERT.format(type=f"kw::{name}")
        candidate = one_file(text, "cpp", f"k.cpp:{symbol}", "destination", flags)
        build = language.build(candidate)
        assert build.status is BuildStatus.OK, build.diagnostics
        made.append(language.load(candidate, Path(build.artefact), (spec(1, dtype=out),)))
    return made


@pytest.mark.parametrize(("name", "dtype", "flags"), CASES)
def test_every_16_bit_value_widens_as_torch_does(settings, name, dtype, flags):
    _, widen = _kernels(settings, name, flags)
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    wide = widen.bind((spec(65536),))(every)
    torch.testing.assert_close(wide, every.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("name", "dtype", "flags"), CASES)
def test_floats_narrow_to_nearest_even_as_torch_does(settings, name, dtype, flags):
    narrow, _ = _kernels(settings, name, flags)
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=torch.Generator().manual_seed(1))
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype).float()
    ties = every.view(torch.int32)[:, None] + torch.tensor([0x7FFF, 0x8000, 0x8001, 0xFFF, 0x1000, 0x1001])
    x = torch.cat(
        [bits.to(torch.int32).view(torch.float32), every, ties.to(torch.int32).view(torch.float32).ravel()]
    )
    narrowed = narrow.bind((spec(x.numel(), dtype=name),))(x)
    torch.testing.assert_close(narrowed.float(), x.to(dtype).float(), rtol=0, atol=0, equal_nan=True)


def test_tensor_views_tell_shape_stride_and_layout(settings):
    text = """
        #include "kernelwright.h"
        KW_KERNEL(f) {
          auto x = args.tensor<const float>(0);
          auto out = args.tensor<int64_t>(1);
          int64_t facts[] = {x.ndim(), x.shape(-1), x.stride(0), x.numel(), x.numel(0, 1), x.contiguous(),
                             args.is<float>(0), args.is<double>(0), x.same_shape(x)};
          for (int i = 0; i < 9; ++i) out[i] = facts[i];
        }
    """
    candidate = one_file(text, "cpp", "k.cpp:f", "destination")
    candidate = candidate.model_copy(update={"parameters": {"strided": True}})
    language = Cpp(settings)
    kernel = language.load(candidate, Path(language.build(candidate).artefact), (spec(9, dtype="int64"),))
    assert kernel(torch.ones(3, 4)).tolist() == [2, 4, 4, 12, 3, 1, 1, 0, 1]
    assert kernel(torch.ones(4, 3).t()).tolist() == [2, 4, 1, 12, 3, 0, 1, 0, 1]


@pytest.mark.needs("objdump")
def test_conversion_loops_vectorise(settings):
    text = CONVERT.format(type="kw::bfloat16")
    candidate = one_file(text, "cpp", "k.cpp:to_half", "destination")
    evidence = Cpp(settings).build(candidate).evidence
    assert evidence["vector_width_bits"] >= 256
    assert evidence["spills"] == 0
