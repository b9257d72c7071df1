"""The tiling of a contraction: its form, and the sizes of its tiles."""

from dataclasses import dataclass
from typing import Literal as Choice
from typing import TypeAlias

Form: TypeAlias = Choice[
    "loops",
    "panels",
    "direct",
    "packed",
    "dots",
    "winograd",
    "winograd-2",
    "winograd-3",
    "winograd-4",
    "convolve",
    "channels-last",
    "online",
    "gradients",
]
"""`loops`: an element at a time. `panels`: register tiles over packed panels of both factors. `direct`: the
same tiles, the right factor read in place. `packed`: the same with weights packed in panels ahead of the
calls: panel after panel for rows that stay in the L2 cache. `dots`: lanes along the inner axis, a sum for each
element.
`winograd`: two by two results of windows of three by three from 16 products. `winograd-2`
and `winograd-4`: the same, and four by four from 36, with lanes along channels; `winograd-3`: three results along
a row, or of the phases of a transposed convolution. `convolve`: a convolution's
windows over a copy of the image, lanes along a row of results. `channels-last`: its windows over the image in place,
lanes along channels of results. `online`: attention, whose left factor is
rescaled as larger scores come, so that neither scores nor weights reach memory. `gradients`: a product of the
weights of an attention, or of what changes its scores, that is differentiated: all such products run in one kernel."""
WINOGRAD_PANELS: tuple[Form, ...] = ("winograd-2", "winograd-3", "winograd-4")
"""Forms of fewer multiplications whose lanes run along channels."""
OF_IMAGES: tuple[Form, ...] = ("convolve", "channels-last", *WINOGRAD_PANELS)
"""Forms of a convolution that read its image, not its windows."""


@dataclass(frozen=True)
class Tiling:
    """Attributes of a contraction's loops; every one keeps the meaning."""

    form: Form = "loops"
    rows: int = 0
    """Rows of the register tile; 0 for as many as the registers of the machine hold."""
    vectors: int = 2
    """Vectors of columns of the register tile."""
    depth: int = 256
    """Inner elements of a panel, which stays in the L1 cache."""
    block: int = 256
    """Rows packed at once, which stay in the L2 cache; for `packed`, 0 means as many as fit. Of `online`,
    keys of a block at most, a tile of whose scores stays in the L1 cache."""
    split: int = 1
    """Parts of the inner axes that are summed separately, then added (split-K)."""
    accumulate: str = "float32"
    """Accumulator type, whatever the factors are: `float32`; `float64` in plain loops only."""
    is_spread: bool = False
    """Of forms of convolutions: the left factor is read from weights that are transformed, or lie in panels."""
    phases: tuple[tuple[tuple[int, int], ...], ...] = ()
    """Of `convolve` and `winograd-3`: for each phase of a transposed convolution, from which tap to which its rows
    read, along each dimension; rows of a phase are neighbours."""
