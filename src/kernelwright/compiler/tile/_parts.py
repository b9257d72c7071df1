"""What contractions consist of: axes, further products, the weights of an attention, the image of a convolution."""

from dataclasses import dataclass

from ._expression import Expression


@dataclass(frozen=True)
class Axis:
    """A named loop with its size."""

    name: str
    size: int


@dataclass(frozen=True)
class Member:
    """A further product of a contraction: its right factor, and the variable that holds its sum in the epilogue."""

    accumulator: str
    right: Expression


@dataclass(frozen=True)
class Weights:
    """The left factor of attention: the softmax, over the inner axis, of scores that are a product of their own.

    `accumulator[batch, rows, inner] = sum over depth of query * key`; a score is a function of it and of positions.
    """

    name: str
    """Variable that holds a weight in the left factor."""
    depth: tuple[Axis, ...]
    query: Expression
    """A function of batch, rows and depth positions."""
    key: Expression
    """A function of batch, inner and depth positions."""
    accumulator: str
    """Variable that holds the sum in the score."""
    score: Expression
    safe: bool
    """Whether a row whose scores are all minus infinity has weights of zero; else they are not numbers."""


@dataclass(frozen=True)
class Image:
    """What a convolution's windows cut: the right factor is its element at `stride * result + dilation * tap`."""

    channels: tuple[Axis, ...]
    """The inner axis of channels, if there is one; the others are the window's, in the order of `at`."""
    images: tuple[Axis, ...]
    """The columns before the last ones, which are the results', in the order of `at`."""
    at: tuple[Axis, ...]
    """Positions of the image: depth, height and width, or the last of them."""
    low: tuple[int, ...]
    """How far the image is padded before its first element: the factor is its element at that much less."""
    outside: float
    """What it is padded with."""
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    value: Expression
    """A function of batch, channel, images and these positions."""
