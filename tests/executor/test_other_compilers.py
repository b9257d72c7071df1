"""PTX that others than nvcc and Triton made: Numba 0.68 (`numba.cuda`), and LLVM 22, whose back end is clang's."""

import numpy as np
import pytest

from kernelwright.executor import Module, Options, Uninitialised

from .conftest import KERNELS


def passed(array):
    """Return the parameters that Numba makes of an array: two owners, its sizes, the data, its shape and strides."""
    data = array.array if isinstance(array, Uninitialised) else array
    return [0, 0, data.size, data.itemsize, array, *data.shape, *data.strides]


def sums(text, seed):
    """Execute the sum of each row by halves, `s[t] += s[t + o]`, in shared memory."""
    x, out = np.random.default_rng(0).standard_normal((5, 64), np.float32), np.zeros(5, np.float32)
    given = [*passed(x), *passed(Uninitialised(out))]
    return Module.load(text)["row_sum"](5, 64, given, options=Options(seed=seed)), out, x.sum(1)


@pytest.mark.parametrize("seed", [0, 3])
def test_what_numba_made_is_executed_and_checked(seed):
    text = (KERNELS / "numba.ptx").read_text()
    run, out, expected = sums(text, seed)
    assert run.ok, [str(f) for f in run.findings]
    assert np.allclose(out, expected, atol=1e-5)
    run, *_ = sums(text.replace("bar.sync", "//", 1), seed)
    assert "race" in {f.kind for f in run.findings}


@pytest.mark.parametrize("seed", [0, 3])
def test_what_llvm_made_is_executed_and_checked(seed):
    text = (KERNELS / "llvm.ptx").read_text()
    x, out = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    run = Module.load(text)["turned"](3, 64, [x, Uninitialised(out), 2.0], options=Options(seed=seed))
    assert run.ok, [str(f) for f in run.findings]
    assert np.array_equal(out, x + 2 * x.reshape(3, 64)[:, ::-1].reshape(-1))
    run = Module.load(text.replace("bar.sync", "//", 1))["turned"](3, 64, [x, Uninitialised(out), 2.0])
    assert "race" in {f.kind for f in run.findings}
