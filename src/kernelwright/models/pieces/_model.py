"""Model whose graph breaks, regions with kernels → the model as a function of its inputs and weights.

Covers: regions that are whole submodules, which kernels take the place of while the model's own code runs around them;
where one is not, the pieces that Dynamo finds in each call. Whatever branch a call takes, what no kernel computes is
the model's own code, and torch's operators, one by one.
Does not cover: inputs of other shapes, dtypes or layouts than those that were verified, which are declined.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn

from ._serve import Region, served_graph
from ._submodules import Submodules


class Pieces:
    """A model whose graph breaks, with kernels in its pieces.

    Example:
        >>> model = Pieces(nn.Linear(2, 3), ("weight", "bias"), (((1, 2), "float32"),), ())
        >>> model(torch.ones(1, 2), torch.ones(3, 2), torch.zeros(3))
        tensor([[2., 2., 2.]])
    """

    def __init__(
        self,
        model: nn.Module,
        state: Sequence[str],
        inputs: Sequence[tuple[tuple[int, ...], str]],
        regions: Sequence[Region],
    ) -> None:
        """Compile what the model computes on inputs like those that were verified.

        Args:
            model: The model, which returns a tensor or a tuple of tensors; its weights are taken from each call.
            state: Names of its parameters and buffers in the order in which they are given.
            inputs: Shape and dtype (`float32`) of each input.
            regions: What there are kernels for.
        """
        self._regions = tuple(regions)
        self._inputs = [(torch.Size(shape), getattr(torch, dtype)) for shape, dtype in inputs]
        self._model = model.eval().requires_grad_(False)
        self._places = [_place(model, name) for name in state]
        held = [place[name].detach() for place, name in self._places]
        submodules = Submodules(self._model, self._regions)
        self._run: Callable[..., Any] = self._model.forward
        self.packed(held)  # what every call needs is made now, when the program is loaded
        if not submodules.whole:
            submodules.remove()
            self._run = torch.compile(self._model.forward, backend=self._served, dynamic=False)
            self.packed(held)

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Return the model's results of its inputs and then its weights."""
        for number, (shape, dtype) in enumerate(self._inputs):
            given = tensors[number]
            if given.shape != shape or given.dtype is not dtype or not given.is_contiguous():
                raise NotImplementedError(f"Unsupported: input {number} is not as it was captured")
        for (place, name), weight in zip(self._places, tensors[len(self._inputs) :], strict=True):
            if place[name] is not weight:
                place[name] = weight
        with torch.no_grad():  # kernels give no gradients, and the mode is part of what Dynamo compiled
            found = self._run(*tensors[: len(self._inputs)])
        return found[0] if isinstance(found, tuple | list) and len(found) == 1 else found

    def packed(self, weights: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Call the model on zeros with these weights, so that its kernels pack them, and return them.

        Those of a branch that zeros do not take pack them in the first call that takes it.
        """
        self(*(torch.zeros(shape, dtype=dtype) for shape, dtype in self._inputs), *weights)
        return weights

    def _served(self, graph: fx.GraphModule, arguments: Sequence[Any]) -> Callable[..., Any]:
        """Return a piece with kernels in it: what torch.compile calls."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter's own
            try:
                made = served_graph(graph, arguments, self._regions)
            except Exception:  # noqa: BLE001  the model's own code runs under the exporter: the piece stays torch's
                made = None
        return (graph if made is None else made).forward


def _place(model: nn.Module, path: str) -> tuple[dict[str, Any], str]:
    """Return the dictionary of the module that holds a parameter or buffer, and its name there."""
    owner, _, name = path.rpartition(".")
    module = model.get_submodule(owner)
    return (module._parameters if name in module._parameters else module._buffers), name
