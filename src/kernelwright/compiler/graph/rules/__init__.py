"""ATen operators in graph form, one file per family; importing this registers all of them."""

from . import contract, index, loss, norm, point, pool, recurrent, reduce, shape

__all__ = ["contract", "index", "loss", "norm", "point", "pool", "recurrent", "reduce", "shape"]
