"""Value regimes: other distributions for a workload's free float arguments, never for structured ones."""

import math
from collections.abc import Callable, Iterable

import torch

from ...records import Distribution, TensorSpec
from ._draw import draw, dtype_of, lay_out

SPECIAL = "special"
"""Name of the regime of NaN and infinities in every argument."""
LONE = {"nan": math.nan, "infinity": math.inf}
"""Values that may appear once in one argument, everything else as declared: `nan in x`."""
_NO_INFINITY = ", no infinity"
Regime = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]
"""Makes float32 values of a shape."""

_FREE_KINDS = ("normal", "uniform")


def takes_regime(spec: TensorSpec) -> bool:
    """Whether a regime may replace the spec's values: a float tensor, declared normal or uniform.

    Example:
        >>> takes_regime(TensorSpec(name="mask", shape=(4,), dtype="bool"))
        False
    """
    return dtype_of(spec.dtype).is_floating_point and spec.distribution.kind in _FREE_KINDS


def draw_in(regime: str, spec: TensorSpec, random: torch.Generator) -> torch.Tensor:
    """Draw the spec's tensor in the regime; structured tensors and `declared` are drawn as declared."""
    kind, named = kind_of(regime), spec.name in regime.partition(" in ")[2].split(", ")
    if kind == "declared" or not takes_regime(spec) or (kind in LONE and not named):
        return draw(spec, random)
    if kind in LONE:
        return _lone(draw(spec, random), LONE[kind], random)
    values = REGIMES[kind](spec.shape, random)
    if named:
        values.masked_fill_(values.isinf(), math.nan)
    return lay_out(values.to(dtype_of(spec.dtype)), spec.layout)


def kind_of(regime: str) -> str:
    """Name what a regime is, wherever it is.

    Example:
        >>> kind_of("nan in x"), kind_of(without_infinity("special", ["scales"])), kind_of("mixed")
        ('nan', 'special', 'mixed')
    """
    return regime.partition(" in ")[0].removesuffix(_NO_INFINITY)


def without_infinity(regime: str, names: Iterable[str]) -> str:
    """Name a regime which has NaN where it would have infinities in arguments of these names.

    Example:
        >>> without_infinity("special", ["k_scales", "v_scales"])
        'special, no infinity in k_scales, v_scales'
    """
    return f"{regime}{_NO_INFINITY} in {', '.join(names)}"


def lone_of(special: str, specs: Iterable[TensorSpec], *, is_drawn: bool = False) -> list[str]:
    """Name the regimes in which one value of `LONE`, if a special regime has it, is somewhere in one argument.

    Args:
        special: The regime.
        specs: The arguments.
        is_drawn: Whether it is drawn itself. Of several arguments one NaN in one of them shows more even so: which
            results read that place, where those that read another special value hide it.

    Example:
        >>> lone_of("special", [TensorSpec(name="x", shape=(4,), dtype="float32")])
        ['nan in x', 'infinity in x']
        >>> two = [TensorSpec(name=name, shape=(4,), dtype="float32") for name in ("x", "y")]
        >>> lone_of("special", two, is_drawn=True)
        ['nan in x', 'nan in y']
    """
    finite = special.partition(" in ")[2].split(", ")
    free = [spec.name for spec in specs if takes_regime(spec)]
    if is_drawn:
        return [f"nan in {name}" for name in free] if len(free) > 1 else []
    return [f"{value} in {name}" for name in free for value in LONE if value == "nan" or name not in finite]


def _lone(values: torch.Tensor, value: float, random: torch.Generator) -> torch.Tensor:
    if values.numel():
        place = torch.randint(values.numel(), (), generator=random)
        values[torch.unravel_index(place, values.shape)] = value
    return values


def _normal(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=random)


def _negatives(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    return torch.empty(shape).uniform_(-1.0, 1.0, generator=random)


def _heavy_tail(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """A Cauchy variable limited to 1,000: outliers in nearly every row, none that overflows float16."""
    return torch.empty(shape).cauchy_(generator=random).clamp_(-1e3, 1e3)


def _large(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=random).mul_(100.0)


def _tiny(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=random).mul_(1e-4)


def _sparse(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """One value in eight is not zero."""
    values = torch.randn(shape, generator=random)
    return values.masked_fill_(torch.empty(shape).uniform_(generator=random) < 0.875, 0.0)


def _constant(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """One value everywhere, another one for each seed, between 0.25 and 2.25."""
    return torch.full(shape, 0.25 + 2.0 * float(torch.rand((), generator=random)))


def _special(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """Normal values with a NaN, an infinity or minus infinity in about 4,096; one of each from 64 values on."""
    values = torch.randn(shape, generator=random)
    flat = values.view(-1)
    if flat.numel() == 0:
        return values
    marks = max(3 if flat.numel() >= 64 else 1, flat.numel() // 4096)
    places = torch.randint(0, flat.numel(), (marks,), generator=random)
    specials = torch.tensor([float("nan"), float("inf"), float("-inf")])
    first = int(torch.randint(0, 3, (1,), generator=random))
    flat[places] = specials[(torch.arange(marks) + first) % 3]
    return values


def _small_integers(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """Whole numbers from -4 to 4: sums and products of a few are exact in every float dtype."""
    return torch.randint(-4, 5, shape, generator=random).to(torch.float32)


def _mixed(shape: tuple[int, ...], random: torch.Generator) -> torch.Tensor:
    """Stretches of 1 to 97 elements, each of its own scale from 1e-3 to 30; one in eight is zero."""
    values = torch.randn(shape, generator=random)
    flat = values.view(-1)
    count = flat.numel()
    if count == 0:
        return values
    scales = torch.tensor([0.0, 1e-3, 0.1, 1.0, 1.0, 1.0, 5.0, 30.0])
    stretch = 1 + int(torch.randint(0, 97, (), generator=random))
    chosen = scales[torch.randint(0, len(scales), (-(-count // stretch),), generator=random)]
    return values.mul_(chosen.repeat_interleave(stretch)[:count].view(shape))


REGIMES: dict[str, Regime] = {
    "normal": _normal,
    "negatives": _negatives,
    "heavy-tail": _heavy_tail,
    "large-scale": _large,
    "tiny-scale": _tiny,
    "sparse": _sparse,
    "constant": _constant,
    SPECIAL: _special,
    "small-integers": _small_integers,
    "mixed": _mixed,
}
"""Every regime but `declared`, by name."""


def adds_nothing(regime: str, distributions: list[Distribution]) -> bool:
    """Whether the declared values are of this regime already."""
    return regime == "normal" and all(d.kind == "normal" and d.scale == 1.0 for d in distributions)
