"""Shapes of norms and recurrent layers on the meta device: those that a real run gives, found at once."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.tasks.capture._shapes import shapes_alone

IMAGES, STEPS = (2, 8, 5, 6), (5, 7, 3)
LAYERS = {
    "batch": (lambda: nn.BatchNorm2d(8), IMAGES),
    "group": (lambda: nn.GroupNorm(2, 8), IMAGES),
    "instance": (lambda: nn.InstanceNorm2d(8), IMAGES),
    "lstm": (lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), STEPS),
    "lstm of one sequence": (lambda: nn.LSTM(3, 4), (7, 3)),
    "gru": (lambda: nn.GRU(3, 4, 2, bidirectional=True), STEPS),
    "plain": (lambda: nn.RNN(3, 4, 2, nonlinearity="relu"), STEPS),
}


class _Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return func(*args, **(kwargs or {}))


def _shapes(result: object) -> list[tuple[int, ...]]:
    if isinstance(result, torch.Tensor):
        return [tuple(result.shape)]
    assert isinstance(result, tuple)
    return [shape for part in result for shape in _shapes(part)]


@pytest.mark.parametrize("kind", LAYERS)
def test_the_shapes_are_those_of_a_real_run(kind: str) -> None:
    make, shape = LAYERS[kind]
    real = _shapes(make()(torch.randn(shape)))
    with torch.device("meta"), shapes_alone():
        assert _shapes(make()(torch.randn(shape))) == real


def test_a_recurrence_is_not_unrolled() -> None:
    with torch.device("meta"):
        layer, x = nn.LSTM(3, 4, 2), torch.randn(50, 2, 3)
        with _Counter() as counter, shapes_alone():
            layer(x)
    assert counter.count < 20


def test_packed_sequences_go_their_own_way() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    with shapes_alone():
        output, _ = nn.GRU(3, 4)(packed)
    assert tuple(output.data.shape) == (6, 4)
