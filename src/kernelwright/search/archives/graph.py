"""A graph of candidates: edges from parents to what was made of them; a merge has several."""

from collections import Counter

from ._scored import Scored


class Graph:
    """Every candidate with its parents and children, failures included."""

    def __init__(self) -> None:
        self._nodes: dict[str, Scored] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._edits: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> tuple[Scored, ...]:
        """Every candidate in the order told."""
        return tuple(self._nodes.values())

    def add(self, found: Scored) -> None:
        """Add a candidate below the parents of its move; one that is known keeps the better score."""
        known = self._nodes.get(found.key)
        if known is None or found.merit > known.merit:
            self._nodes[found.key] = found
        parents = found.move.parents if found.move is not None else ()
        self._parents.setdefault(found.key, tuple(p.candidate.key for p in parents))

    def edit(self, *keys: str) -> None:
        """Count an edit of nodes."""
        self._edits.update(keys)

    def edits(self, key: str) -> int:
        """Return how often a node was edited."""
        return self._edits[key]

    def ancestors(self, key: str) -> frozenset[str]:
        """Return the keys of everything a node was made from, itself included."""
        seen: set[str] = set()
        left = [key]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += self._parents.get(one, ())
        return frozenset(seen)

    def related(self, one: str, other: str) -> bool:
        """Tell whether two nodes share an ancestor or one was made from the other."""
        return bool(self.ancestors(one) & self.ancestors(other))
