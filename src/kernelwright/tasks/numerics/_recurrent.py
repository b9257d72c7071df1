"""The layer of an LSTM that oneDNN computes as one operator, step by step."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

LSTM = 2
"""How oneDNN numbers an LSTM among its recurrent layers."""


def lstm_layer(
    x: Tensor, w_input: Tensor, w_hidden: Tensor, b_input: Tensor, b_hidden: Tensor, hidden: Tensor, cell: Tensor,
    reverse: bool, *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute `aten.mkldnn_rnn_layer` of an LSTM by products, sums and functions, one step of the sequence at a time.

    Args:
        x: (steps, batch, features).
        w_input: (4 hidden, features), and as weights and biases of the same gates:
        w_hidden: (4 hidden, hidden).
        b_input: (4 hidden,).
        b_hidden: (4 hidden,).
        hidden: (1, batch, hidden), the state at the beginning.
        cell: (1, batch, hidden).
        reverse: Whether it runs from the last step to the first.

    Returns:
        The hidden states (steps, batch, hidden), the last hidden state and cell (1, batch, hidden), and no workspace.
    """
    h, c = hidden[0], cell[0]
    given = linear(x, w_input, b_input)
    states: list[Tensor] = []
    for row in (given.flip(0) if reverse else given).unbind(0):
        i, f, g, o = (row + linear(h, w_hidden, b_hidden)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    out = torch.stack(states)
    return (out.flip(0) if reverse else out), h[None], c[None], x.new_empty(0)
