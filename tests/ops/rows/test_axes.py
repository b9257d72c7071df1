"""Axes of an iteration space: unified, split, merged, broadcast."""

import pytest

from kernelwright.languages.vectors import Unprintable
from kernelwright.ops.rows._axes import Axes


def test_axes_unify_split_and_merge() -> None:
    axes = Axes()
    channels, pixels = axes.new(8), axes.new(15)
    group, channel = axes.new(2), axes.new(4)
    axes.unify((channels,), (group, channel))
    assert axes.resolve((channels, pixels)) == (group, channel, pixels)
    assert axes.reshape(((channels,), (pixels,)), (120,)) == ((group, channel, pixels),)
    with pytest.raises(Unprintable, match="splits an axis"):
        axes.reshape(((pixels,),), (3, 5))
    with pytest.raises(Unprintable, match="do not broadcast"):
        axes.broadcast([((channels,),), ((pixels,),)])
