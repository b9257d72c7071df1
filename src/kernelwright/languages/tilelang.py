"""TileLang, tiles on TVM, which it compiles to CUDA C++; styles as for `torch`. Executed on a CPU.

A candidate is Python with `@tilelang.jit` functions in it:

    # scale.py, entry "scale.py:run"
    import tilelang
    import tilelang.language as T

    @tilelang.jit(out_idx=[-1])
    def scale(n, block):
        @T.prim_func
        def kernel(x: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, block), threads=128) as tile:
                for i in T.Parallel(block):
                    out[tile * block + i] = 2 * x[tile * block + i]

        return kernel

    def run(x):
        if x.dim() != 1 or not x.is_contiguous():
            raise NotImplementedError("Unsupported: x must be a contiguous vector")
        return scale(x.numel(), 256)(x)

Without a GPU every call is executed from the PTX that nvcc makes of TileLang's code for sm_90 (docs/executor.md), under
the sanitiser, by way of TileLang's `cython` backend, whatever backend the candidate names: the host's half of the code,
tensor maps and shared memory included, is run as TileLang writes it. It needs nvcc, and the wheel's own headers.
"""

from ._package import PackageLanguage


class TileLang(PackageLanguage):
    """TileLang candidates."""

    name = "tilelang"
    title = "TileLang"
    distribution = "tilelang"
