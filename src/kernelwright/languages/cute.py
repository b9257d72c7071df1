"""CuTe DSL, CUTLASS in Python, which it compiles to PTX; styles as for `torch`. Executed on a CPU.

A candidate is Python with `@cute.kernel` and `@cute.jit` functions in it:

    # scale.py, entry "scale.py:run"
    import cutlass
    import cutlass.cute as cute
    import torch
    from cutlass.cute.runtime import from_dlpack

    @cute.kernel
    def scale(x: cute.Tensor, out: cute.Tensor, n: cutlass.Int32):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        i = block * 128 + thread
        if i < n:
            out[i] = x[i] * 2.0

    @cute.jit
    def launch(x: cute.Tensor, out: cute.Tensor, n: cutlass.Int32):
        scale(x, out, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))

    COMPILED = {}

    def run(x):
        if x.dim() != 1 or not x.is_contiguous():
            raise NotImplementedError("Unsupported: x must be a contiguous vector")
        out = torch.empty_like(x)
        arguments = from_dlpack(x), from_dlpack(out), x.numel()
        if x.shape not in COMPILED:
            COMPILED[x.shape] = cute.compile(launch, *arguments)
        COMPILED[x.shape](*arguments)
        return out

Without a GPU every call is executed from the PTX that CuTe DSL makes for sm_90a (docs/executor.md), under the
sanitiser; the host's half, tensor maps included, is run as CuTe DSL compiled it. It needs nvcc, for its headers.
"""

from ._package import PackageLanguage


class Cute(PackageLanguage):
    """CuTe DSL candidates."""

    name = "cute"
    title = "CuTe DSL"
    distribution = "nvidia-cutlass-dsl"
