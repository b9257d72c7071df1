"""Model whose graph breaks, accepted kernels → patched model: torch.compile with kernels in its pieces."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.compiler import is_compiling
from torch.utils import _pytree as pytree

from ..deploy.runtime.operators import is_transformed
from ..records import TensorSpec
from ._accepted import RegionProgram
from ._dynamo import served_by
from ._dynamo_regions import SITES, Site
from ._in_place import PLACE, InPlace, check_free
from ._target import call_signature


class PiecesPatch(InPlace):
    """A patched model whose graph breaks. As a context manager it is removed at the end.

    Dynamo finds the pieces of each call, whatever branch it takes; kernels serve the regions that they were verified
    on, and Inductor the rest. The model's own `forward` answers other sizes, dtypes or arguments that are no tensors,
    gradients, autocast, torch.func and training mode. The state dictionary stays as it is, and weights may change.
    """

    def __init__(
        self, model: nn.Module, programs: Sequence[RegionProgram], inputs: Sequence[TensorSpec], call: str
    ) -> None:
        """Put the model with kernels in place of its forward.

        Args:
            model: The model, in eval mode.
            programs: Kernels of its regions.
            inputs: What the tensors of a call must be.
            call: How a call is nested, and all in it that is no tensor (`call_signature`).

        Raises:
            InputError: the model is patched already.
        """
        check_free(model)
        self.model, self.calls, self.native_calls = model, 0, 0
        self._native, self._programs, self._call = model.forward, tuple(programs), call
        self._specs = [(torch.Size(s.shape), getattr(torch, s.dtype)) for s in inputs]
        self.sizes = tuple(shape for shape, _ in self._specs)
        """Sizes of the tensors of a call that was verified."""
        self._compiled: Callable[..., Any] | None = None
        self._sites = list[Site]()
        vars(model)[PLACE] = self.answer

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a patched model compiles its own forward in its first call."""
        return {**vars(self), "_compiled": None, "_sites": []}

    def answer(self, *args: Any, **kwargs: Any) -> Any:
        """Answer a call of the model: what lies in place of its forward."""
        if is_compiling() or not self._is_as_verified(args, kwargs):
            self.native_calls += not is_compiling()
            return self._native(*args, **kwargs)
        if self._compiled is None:
            self._compiled = torch.compile(self._native, backend=self._served, dynamic=False)
        before = sum(site.calls for site in self._sites)
        result = self._compiled(*args, **kwargs)
        served = sum(site.calls for site in self._sites) > before
        self.calls, self.native_calls = self.calls + served, self.native_calls + (not served)
        return result

    def _served(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one piece: what torch.compile calls."""
        before = len(SITES)
        made = served_by(graph, inputs, (), self._programs)
        self._sites += SITES[before:]
        return made

    def _is_as_verified(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if self.model.training or torch.is_autocast_enabled("cpu") or is_transformed():
            return False
        leaves, structure = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        wanted = (*tensors, *self.model.parameters())
        if torch.is_grad_enabled() and any(t.requires_grad for t in wanted):
            return False
        fits = all(type(t) is torch.Tensor and t.device.type == "cpu" for t in tensors)
        return (
            fits
            and [(t.shape, t.dtype) for t in tensors] == self._specs
            and call_signature(leaves, structure) == self._call
        )
