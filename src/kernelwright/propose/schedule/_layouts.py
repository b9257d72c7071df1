"""Program → Space: what the tuner may choose of its loops and tiles, and decisions with the choice made."""

from collections.abc import Mapping
from dataclasses import replace

from ...records import Configuration, Parameter, Scalar, Space
from .lower import Decisions, Layout
from .tile import Contraction, Kernel, Program, Tiling

_LOOPS = (
    Parameter(name="vector", values=("auto", "inner", "outer")),
    Parameter(name="unroll", values=(2, 1, 4)),
)
_TILES = (
    Parameter(name="rows", values=(0, 8, 4)),
    Parameter(name="vectors", values=(2, 3, 1)),
    Parameter(name="depth", values=(256, 512, 128)),
    Parameter(name="block", values=(96, 192, 48)),
)
_SHARES = Parameter(name="shares", values=(4, 2, 8, 16))


def space_of(program: Program) -> Space:
    """Return the parameters that change something in the program; first values are those to try first."""
    products = [s.tiling for s in program.steps if isinstance(s, Contraction)]
    plain = any(isinstance(s, Kernel) for s in program.steps) or any(t.form == "loops" for t in products)
    tiled = any(t.form in ("panels", "direct") for t in products)
    shared = any(t.split > 1 for t in products)
    return Space(
        parameters=(*(_LOOPS if plain else ()), *(_TILES if tiled else ()), *((_SHARES,) if shared else ()))
    )


def laid_out(decisions: Decisions, configuration: Configuration) -> Decisions:
    """Return the decisions with loops and tiles as the configuration says."""
    chosen = dict(configuration)
    layout = Layout(vector=str(chosen.get("vector", "auto")), unroll=int(str(chosen.get("unroll", 2))))
    tilings = {name: _sized(tiling, chosen) for name, tiling in decisions.tilings.items()}
    return replace(decisions, layout=layout, tilings=tilings)


def _sized(tiling: Tiling, chosen: Mapping[str, Scalar]) -> Tiling:
    """Return the tiling with the sizes that are chosen; dot products have sizes of their own."""

    def size(name: str, given: int) -> int:
        return int(str(chosen.get(name, given)))

    split = size("shares", tiling.split) if tiling.split > 1 else 1
    if tiling.form == "dots":
        return replace(tiling, split=split)
    return replace(
        tiling, rows=size("rows", tiling.rows), vectors=size("vectors", tiling.vectors),
        depth=size("depth", tiling.depth), block=size("block", tiling.block), split=split,
    )  # fmt: skip
