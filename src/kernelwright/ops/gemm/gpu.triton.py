"""Products with a packed factor on a GPU: it is unpacked for torch's product, which adds up in float32."""

from .._core.gpu import FLOATS, GpuForm, product
from . import reference


def _matmul(a, panels, bias, gate, residual, curve, columns):
    sums = product(a, reference.unpacked(panels, a.shape[1], columns))
    return reference.followed(sums, bias, curve, gate, residual).to(a.dtype)


def _serves(a, *_):
    return None if a.dtype in FLOATS else f"a is of {a.dtype}"


FORMS = {"gemm_matmul": GpuForm(_serves, _matmul)}
