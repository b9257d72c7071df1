"""Ascend C, the kernel language of Huawei's NPUs; style `destination`. Executed on the CPU, checked, never timed.

A candidate is one or more C++ files; the kernel is written as for CANN, and a few lines say how Python calls it:

    // add.cpp, entry "add.cpp:run", called as run(x, y)
    #include "kernel_operator.h"
    #include "kernelwright.h"
    using namespace AscendC;

    constexpr uint32_t TILE = 256;

    extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) {
      TPipe pipe;
      TQue<TPosition::VECIN, 2> in_x, in_y;
      TQue<TPosition::VECOUT, 2> out_z;
      pipe.InitBuffer(in_x, 2, TILE * sizeof(float));
      pipe.InitBuffer(in_y, 2, TILE * sizeof(float));
      pipe.InitBuffer(out_z, 2, TILE * sizeof(float));
      GlobalTensor<float> gx, gy, gz;
      gx.SetGlobalBuffer((__gm__ float*)x, n);
      gy.SetGlobalBuffer((__gm__ float*)y, n);
      gz.SetGlobalBuffer((__gm__ float*)z, n);
      for (uint32_t at = GetBlockIdx() * TILE; at < n; at += GetBlockNum() * TILE) {
        uint32_t count = n - at < TILE ? n - at : TILE;
        DataCopyExtParams part{1, count * (uint32_t)sizeof(float), 0, 0, 0};
        DataCopyPadExtParams<float> pad{false, 0, 0, 0};
        LocalTensor<float> a = in_x.AllocTensor<float>(), b = in_y.AllocTensor<float>();
        DataCopyPad(a, gx[at], part, pad);
        DataCopyPad(b, gy[at], part, pad);
        in_x.EnQue(a);
        in_y.EnQue(b);
        a = in_x.DeQue<float>();
        b = in_y.DeQue<float>();
        LocalTensor<float> c = out_z.AllocTensor<float>();
        Add(c, a, b, count);
        out_z.EnQue(c);
        in_x.FreeTensor(a);
        in_y.FreeTensor(b);
        c = out_z.DeQue<float>();
        DataCopyPad(gz[at], c, part);
        out_z.FreeTensor(c);
      }
    }

    KW_KERNEL(run) {
      auto x = args.tensor<const float>(0);
      auto y = args.tensor<const float>(1);
      auto z = args.tensor<float>(2);
      ICPU_RUN_KF(add, 8, kw::gm(x), kw::gm(y), kw::gm(z), (uint32_t)x.numel());
    }

No CANN is needed: the file is compiled by the host's C++ compiler against `include/ascendc/kernel_operator.h`, headers
of our own for a part of the basic API, as it is documented for Atlas A2 (NPU architecture 2201). A call ends with an
error at the first fault, which names file and line.

Executed: `TPipe`, `TQue`, `TQueBind`, `TBuf`, `LocalMemAllocator`; `LocalTensor`, `GlobalTensor`; `DataCopy`,
`DataCopyPad`, `SetAtomicAdd`; flags, `PipeBarrier`, `SyncAll`, `CrossCoreSetFlag`. Of the vector unit arithmetic,
`Exp`, `Ln`, `Sqrt`, `Rsqrt`, `Reciprocal`, `Abs`, `Relu`, `LeakyRelu`, `And`, `Or`, `Not`, `Axpy`, `FusedMulAdd`,
`Duplicate`, `Copy` and `Cast` in all modes, on the first elements or by masks, repeats and strides; `ReduceSum`,
`ReduceMax`, `ReduceMin` and their forms by repeats (`WholeReduce...`, `GetReduceMaxMinCount`), blocks and pairs;
`Compare`, `Select`, `Brcb`, `Gather`; `Tanh`, `Sigmoid`, `Erf`, `Sin`, `Floor` and their like, `Gelu`, `Silu`,
`Sum`, `Mean`, `BroadCast`; `ASSERT`; `printf`, `PRINTF` and `DumpTensor`, which print nothing. Of the cube unit
`DataCopy` into fractals, `LoadData`, `LoadDataWithTranspose`, `Mmad` with bias and sums, `Fixpipe` with conversion and
ReLU; half, bfloat16, float and int8. A launch after `SetKernelMode(KernelMode::MIX_MODE)` has two vector cores with
each cube core. What is not there does not compile, and is `unavailable`, never refused.

Covers: accesses by one pipe of what another writes or reads with no queue and no flag that orders them; bytes of a
buffer that nobody wrote, once something comes of them; lengths, starts, strides, masks and modes that the reference
forbids; buffers of which more is taken than there is; accesses beyond a buffer or a tensor; queues that are empty,
full, or exhausted; tensors that were freed, are never freed, belong to another queue or lie in the wrong buffer;
flags that are never set, or set twice; cores that touch what another core writes, or wait for ever.
Does not cover: operators with tensors, `LoadData` of images, `unitFlag`, other calls of the high-level library; the
precision of the device's `Exp`, `Ln`, `Div` and the like, which are the host's, and the order in which `Mmad` adds
up; conflicts of banks; times. A compiler that sets flags by itself accepts more than is accepted here: each order
between pipes must be written down.
"""

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..records import Build, BuildStatus, Candidate, content_key
from ._protocol import Availability
from .cpp import INCLUDE, Cpp

TARGET: Final = "ascend910b"
"""The NPU whose documented limits are checked."""
_HEADERS: Final = INCLUDE / "ascendc"
"""Folder of `kernel_operator.h`."""
_LACKS: Final = re.compile(
    r"was not declared|is not a member of|has no member|no matching function|is not executed|no type named"
)


class AscendC(Cpp):
    """Ascend C kernels, executed on the CPU."""

    name = "ascendc"
    targets = (TARGET,)
    """What the kernels are for."""
    executed = (TARGET,)
    """The targets whose kernels run here without the device."""
    headers = (INCLUDE, _HEADERS)

    def available(self) -> Availability:
        """Report the compiler."""
        found = super().available()
        return replace(found, what=f"{found.what}, executed and checked, not timed") if found.ok else found

    def toolchain(self) -> str:
        """Name the host's compiler and the headers."""
        return f"{super().toolchain()}, headers {_key()}"

    def timeable(self, device: str) -> bool:  # noqa: ARG002
        """Whether times are meaningful: never, as no NPU runs anything here."""
        return False

    def compile(self, compiler: str, candidate: Candidate, folder: Path, deadline_s: float) -> Build:
        """Compile for the executor; what its headers lack makes the candidate unavailable, not wrong."""
        if candidate.style != "destination":
            said = f"an Ascend C kernel is called in style 'destination', not {candidate.style!r}"
            return Build(status=BuildStatus.FAILED, diagnostics=said)
        built = super().compile(compiler, candidate, folder, deadline_s)
        first = next((line for line in built.diagnostics.splitlines() if " error: " in line), "")
        if built.status is BuildStatus.FAILED and _LACKS.search(first):
            said = f"not compiled for the executor, which has a part of Ascend C:\n{built.diagnostics}"
            return built.model_copy(update={"status": BuildStatus.UNAVAILABLE, "diagnostics": said[:20_000]})
        return built.model_copy(update={"evidence": {}, "findings": ()})


@functools.lru_cache
def _key() -> str:
    return content_key(*(path.read_text() for path in sorted(_HEADERS.iterdir())))
