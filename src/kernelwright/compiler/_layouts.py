"""Program → Space: the loop and tile parameters that the tuner may choose, and decisions with a choice applied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..records import Configuration, Parameter, Scalar, Space
from .actions import State
from .lower import Decisions, Layout
from .tile import OF_IMAGES, Kernel, Move, Program, Tiling, What, products

_LOOPS = (
    Parameter(name="vector", values=("auto", "inner", "outer")),
    Parameter(name="unroll", values=(2, 1, 4)),
)
_TILES = (
    Parameter(name="rows", values=(0, 8, 4)),
    Parameter(name="vectors", values=(2, 3, 1)),
    Parameter(name="depth", values=(256, 512, 128)),
    Parameter(name="block", values=(256, 96, 48)),
)
_PACKED = (
    Parameter(name="rows", values=(0, 8, 6)),
    Parameter(name="held", values=(0, 48, 384)),
)
_ONLINE = Parameter(name="keys", values=(512, 256))
_SHARES = Parameter(name="shares", values=(4, 2, 8, 16))
_UNITS: Mapping[What, int] = {"stream": 1 << 20, "strip": 1 << 10, "feed": 1 << 10}
_MOVES: Mapping[What, Parameter] = {
    "cut": Parameter(name="cut", values=(256, 1024, 64)),
    "tile": Parameter(name="tile", values=(64, 32, 16)),
    "unroll": Parameter(name="unrolled", values=(4, 8)),
    "stream": Parameter(name="stream_mib", values=(4, 16, 64)),
    "strip": Parameter(name="strip_kib", values=(128, 32, 256)),
    "feed": Parameter(name="panel_kib", values=(1024, 256, 4096)),
    "rescale": Parameter(name="rescaled", values=(1024, 2048, 4096)),
}


def space_of(program: Program, moves: Sequence[Move] = ()) -> Space:
    """Return the parameters that change the program; the first values are tried first."""
    moved = {move.what for move in moves}
    tilings = [product.tiling for product in products(program.steps)]
    called = [s for s in program.steps if s.name not in program.ahead]
    plain = any(isinstance(s, Kernel) for s in called) or any(t.form == "loops" for t in tilings)
    tiled = any(t.form in ("panels", "direct") for t in tilings)
    shared = any(t.split > 1 for t in tilings)
    return Space(
        parameters=(
            *(_LOOPS if plain else ()),
            *(_TILES if tiled else ()),
            *(_PACKED[tiled:] if any(t.form == "packed" for t in tilings) else ()),
            *((_ONLINE,) if any(t.form == "online" for t in tilings) else ()),
            *((_SHARES,) if shared else ()),
            *(p for what, p in _MOVES.items() if what in moved),
        )
    )


def lowering(space: Space, state: State) -> Space:
    """Return the choices under which a state lowers: a move names loops that another layout may lack."""

    def lowers(configuration: Configuration) -> bool:
        laid = replace(state, decisions=laid_out(state.decisions, configuration))
        return laid.program is not None

    if not state.decisions.moves:
        return space
    kept = [
        p.model_copy(update={"values": tuple(v for v in p.values if lowers({p.name: v}))})
        if p.name in {layout.name for layout in _LOOPS}
        else p
        for p in space.parameters
    ]
    return space.model_copy(update={"parameters": tuple(p for p in kept if p.values)})


def laid_out(decisions: Decisions, configuration: Configuration) -> Decisions:
    """Return the decisions with loops and tiles set from the configuration."""
    chosen = dict(configuration)
    layout = Layout(vector=str(chosen.get("vector", "auto")), unroll=int(str(chosen.get("unroll", 2))))
    tilings = {name: _sized(tiling, chosen) for name, tiling in decisions.tilings.items()}
    return replace(
        decisions, layout=layout, tilings=tilings, moves=tuple(_move(m, chosen) for m in decisions.moves)
    )


def _move(move: Move, chosen: Mapping[str, Scalar]) -> Move:
    """Return the move with the chosen size; sizes in bytes have their own units."""
    parameter = _MOVES.get(move.what)
    if parameter is None or parameter.name not in chosen:
        return move
    size = int(str(chosen[parameter.name]))
    return replace(move, size=size * _UNITS.get(move.what, 1))


def _sized(tiling: Tiling, chosen: Mapping[str, Scalar]) -> Tiling:
    """Return the tiling with the chosen sizes; dot products and direct convolutions have their own."""

    def size(name: str, given: int) -> int:
        return int(str(chosen.get(name, given)))

    split = size("shares", tiling.split) if tiling.split > 1 else 1
    if tiling.form in ("dots", *OF_IMAGES):
        return replace(tiling, split=split)
    if tiling.form == "online":
        return replace(tiling, block=size("keys", tiling.block))
    if tiling.form == "packed":
        return replace(tiling, rows=size("rows", tiling.rows), block=size("held", tiling.block))
    return replace(
        tiling, rows=size("rows", tiling.rows), vectors=size("vectors", tiling.vectors),
        depth=size("depth", tiling.depth), block=size("block", tiling.block), split=split,
    )  # fmt: skip
