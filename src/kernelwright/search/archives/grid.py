"""A MAP-Elites grid: one elite for each behaviour."""

from ._scored import Scored
from .behaviour import DIMENSIONS, Behaviour, behaviour_of


class Grid:
    """Behaviour cells, each with the best candidate of that behaviour.

    Source: Mouret, Clune, "Illuminating search spaces by mapping elites", 2015, section 3.
    """

    def __init__(self) -> None:
        self._cells: dict[Behaviour, Scored] = {}

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def elites(self) -> tuple[Scored, ...]:
        """The best of every cell, in the order in which the cells were first filled."""
        return tuple(self._cells.values())

    @property
    def best(self) -> Scored | None:
        """The best of all cells."""
        return max(self._cells.values(), key=lambda e: e.merit, default=None)

    def add(self, found: Scored) -> bool:
        """Put a candidate into its cell if the cell is empty or its elite is worse; return whether it was added."""
        if not found.works:
            return False
        cell = behaviour_of(found.evaluation)
        elite = self._cells.get(cell)
        if elite is not None and elite.merit >= found.merit:
            return False
        self._cells[cell] = found
        return True

    def empty_neighbour(self, elite: Scored) -> tuple[Behaviour, ...]:
        """Return the empty cells that differ from the elite's cell in one dimension."""
        cell = behaviour_of(elite.evaluation)
        neighbours = (
            cell.with_(name, value)
            for name, values in DIMENSIONS.items()
            for value in values
            if value != getattr(cell, name)
        )
        return tuple(b for b in neighbours if b not in self._cells)
