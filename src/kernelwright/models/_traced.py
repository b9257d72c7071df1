"""Region, trace of a device → the chains of kernels that one kernel in place of the region would fuse."""

from collections.abc import Sequence

from ..profile.trace import Chain
from ._regions import Region, computes, operator_name
from .pieces import Capture

_BARE = "aten::"


def chains_in(capture: Capture, region: Region, chains: Sequence[Chain]) -> tuple[int, ...]:
    """Return the places of the chains whose operators a region calls in a row.

    Covers: operators as the program calls them, in place or not.
    Does not cover: operators that another version of the model, or of torch, calls by other names.
    """
    unit = region.units[0]
    inside = capture.nodes[unit.start : unit.stop]
    names = [operator_name(node) for node in inside if computes(node) and node.name not in capture.folded]
    return tuple(i for i, chain in enumerate(chains) if _in_row(_called(chain), names))


def _called(chain: Chain) -> list[str]:
    """Return the operators of a chain as a graph has them; none where some are not of ATen."""
    named = all(name.startswith(_BARE) for name in chain.operators)
    return [name.removeprefix(_BARE).rstrip("_") for name in chain.operators] if named else []


def _in_row(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether operators follow each other in a longer row.

    Example:
        >>> _in_row(["mul", "add"], ["relu", "mul", "add"]), _in_row(["mul", "add"], ["mul", "relu", "add"])
        (True, False)
    """
    size = len(wanted)
    return size > 0 and any(list(names[i : i + size]) == list(wanted) for i in range(len(names) - size + 1))
