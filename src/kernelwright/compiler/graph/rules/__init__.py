"""ATen operators in graph form, one file a family; importing this registers all of them."""

from . import contract, index, loss, norm, point, pool, recurrent, reduce, shape

__all__ = ["contract", "index", "loss", "norm", "point", "pool", "recurrent", "reduce", "shape"]
