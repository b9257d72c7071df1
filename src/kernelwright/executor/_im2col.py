"""Images as a tensor map of columns of pixels, which `cuTensorMapEncodeIm2col` makes where there is a GPU.

A copy takes `pixels` pixels, each with `channels` channels: from the place that it names through a bounding box, along
W first, then H and D, then the next image; each read at the copy's offsets from its place, as a filter's tap does.

Covers: NWC, NHWC and NDHWC of one to 1024 pixels, bounding boxes and steps in W, H and D.
Does not cover: `im2col::w`; a first pixel that steps from the box's lower corner do not reach, and stores with steps
(the launch is refused).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ._tensormap import MOST_STEP, TensorMap

_BITS = {3: 16, 4: 8, 5: 5}
"""Bits of a corner's coordinate, by the number of dimensions."""


@dataclass(frozen=True)
class Im2colMap(TensorMap):
    """Images whose columns a kernel copies by TMA; its box is `(pixels, channels)`.

    For a convolution's input, `lower` is minus the padding, `upper` is the padding minus the filter's reach, and
    `steps` are its strides. Source: PTX ISA, "im2col mode"; CUDA driver API, `cuTensorMapEncodeIm2col`.

    Raises:
        InputError: where no device could have such a map; the message says what it would take.

    Example:
        >>> import numpy
        >>> Im2colMap(numpy.zeros((2, 9, 9, 16), numpy.float32), (32, 8), lower=(-1, -1), upper=(-1, -1)).box
        (32, 8)
    """

    lower: Sequence[int] = ()
    """The bounding box's corner, counted from an image's first pixel, in the array's order (D, H, W); 0 by default."""
    upper: Sequence[int] = ()
    """Its opposite corner, counted from the last pixel."""
    steps: Sequence[int] = ()
    """Pixels from one to the next, in the same order; ones by default."""

    def _problems(self, box: tuple[int, ...], sizes: Sequence[int]) -> dict[str, bool]:
        if not 3 <= len(sizes) <= 5:
            return {f"im2col with {len(sizes)} dimensions; expected NWC, NHWC or NDHWC": True}
        given = {"lower": self.lower, "upper": self.upper, "steps": self.steps}
        wrong = [f"{name} of {tuple(v)}" for name, v in given.items() if v and len(v) != len(sizes) - 2]
        if wrong:
            return {f"{wrong[0]}; expected one for each of the {len(sizes) - 2} dimensions of an image": True}
        corners, most = (*self.lower, *self.upper), 1 << (_BITS[len(sizes)] - 1)
        spans = [n - 1 + up - low for n, (low, up, _) in zip(sizes[1:-1], self._space(sizes), strict=True)]
        steps_fit = all(1 <= s <= MOST_STEP for s in self.steps)
        pixels_fit = len(box) == 2 and 1 <= box[0] <= 1024 and 1 <= box[1] <= 256
        return {
            f"a box of {box}; expected 1 to 1024 pixels and 1 to 256 channels": not pixels_fit,
            f"corners {corners}; expected {-most} to {most - 1}": not all(-most <= c < most for c in corners),
            "a bounding box in which there is no pixel": min(spans) < 0,
            f"steps of {tuple(self.steps)}; expected 1 to {MOST_STEP}": not steps_fit,
        }  # fmt: skip

    def _space(self, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return lower corner, upper corner and step of each dimension of an image."""
        n = len(sizes) - 2
        return list(zip(self.lower or [0] * n, self.upper or [0] * n, self.steps or [1] * n, strict=True))

    def _box(self) -> tuple[bool, list[int], list[int]]:
        pixels, channels = self.box
        space = self._space(self._facts()[1])[::-1]
        corners = [(low & 0xFFFF) | (up & 0xFFFF) << 16 for low, up, _ in space]
        return True, [channels, pixels, *corners], [1, *(step for *_, step in space)]
