"""A kernel in Ascend C goes through the judge as any candidate: in a worker, on fresh inputs, its first fault named."""

import pytest

from kernelwright.languages import get_language
from kernelwright.records import BuildStatus, Candidate, CheckStatus, SourceFile, VerdictStatus

from .judging import judging

pytestmark = pytest.mark.long

RIGHT = """
#include "kernel_operator.h"
#include "kernelwright.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void mirror(GM_ADDR x, GM_ADDR z, uint32_t rows, uint32_t n) {
  TPipe pipe;
  TQue<TPosition::VECIN, 1> in;
  TQue<TPosition::VECOUT, 1> out;
  pipe.InitBuffer(in, 2, n * sizeof(float));
  pipe.InitBuffer(out, 2, n * sizeof(float));
  GlobalTensor<float> gx, gz;
  gx.SetGlobalBuffer((__gm__ float*)x, rows * n);
  gz.SetGlobalBuffer((__gm__ float*)z, rows * n);
  const DataCopyExtParams part{1, n * (uint32_t)sizeof(float), 0, 0, 0};
  for (uint32_t row = GetBlockIdx(); row < rows; row += GetBlockNum()) {
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopyPad(a, gx[row * n], part, DataCopyPadExtParams<float>{false, 0, 0, 0});
    in.EnQue(a);
    a = in.DeQue<float>();
    Muls(a, a, 2.0f, n);
    LocalTensor<float> c = out.AllocTensor<float>();
    PipeBarrier<PIPE_ALL>();
    for (uint32_t i = 0; i < n; ++i) c.SetValue(i, a.GetValue(n - 1 - i));
    PipeBarrier<PIPE_ALL>();
    in.FreeTensor(a);
    out.EnQue(c);
    c = out.DeQue<float>();
    DataCopyPad(gz[row * n], c, part);
    out.FreeTensor(c);
  }
}

KW_KERNEL(run) {
  auto x = args.tensor<const float>(0);
  auto z = args.tensor<float>(1);
  if (x.ndim() != 2) KW_UNSUPPORTED("x must be a matrix");
  if (x.numel() == 0) return;
  ICPU_RUN_KF(mirror, 2, kw::gm(x), kw::gm(z), (uint32_t)x.shape(0), (uint32_t)x.shape(1));
}
"""
RACY = RIGHT.replace(
    "SetValue(i, a.GetValue(n - 1 - i));\n    PipeBarrier<PIPE_ALL>();", "SetValue(i, a.GetValue(n - 1 - i));"
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    with judging(tmp_path_factory.mktemp("task")) as judge:
        yield judge


def test_a_right_kernel_is_accepted_and_never_timed(judged):
    verdict = judged(RIGHT, "ascendc", "full")
    assert verdict.status is VerdictStatus.ACCEPTED, [f for f in verdict.findings if f.message]
    assert not get_language("ascendc").timeable("cpu")


def test_a_missing_flag_is_refused_by_its_line(judged):
    verdict = judged(RACY, "ascendc")
    (found,) = (f for f in verdict.findings if f.status is CheckStatus.FAIL)
    line = next(n for n, text in enumerate(RACY.splitlines(), 1) if "DataCopyPad(gz" in text)
    assert f"race at k.cpp:{line}: DataCopyPad (pipe MTE3) reads what pipe S writes" in found.message


def test_what_the_headers_lack_is_unavailable_and_a_slip_is_refused(tmp_path):
    def built(text):
        source = SourceFile(path="k.cpp", text=text)
        made = Candidate(
            sources=(source,), language="ascendc", entry="k.cpp:run", style="destination", flags=("-O0",)
        )
        return get_language("ascendc").build(made)

    beyond = built(RIGHT.replace("Muls(a, a, 2.0f, n);", "Gelu(a, a, n);"))
    assert beyond.status is BuildStatus.UNAVAILABLE and "which has a part of Ascend C" in beyond.diagnostics
    assert built(RIGHT.replace("TPipe pipe;", "TPipe pipe")).status is BuildStatus.FAILED
