"""A graph of candidates with edges from parents to children; a merge has several parents."""

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
        """Every candidate, in the order reported."""
        return tuple(self._nodes.values())

    def add(self, found: Scored) -> None:
        """Add a candidate below the parents of its move; a known one keeps the better score."""
        known = self._nodes.get(found.key)
        if known is None or found.merit > known.merit:
            self._nodes[found.key] = found
        parents = found.move.parents if found.move is not None else ()
        self._parents.setdefault(found.key, tuple(p.candidate.key for p in parents))

    def edit(self, *keys: str) -> None:
        """Count one edit for each of the nodes."""
        self._edits.update(keys)

    def edits(self, key: str) -> int:
        """Return how often a node has been edited."""
        return self._edits[key]

    def ancestors(self, key: str) -> frozenset[str]:
        """Return the keys of a node's ancestors, itself included."""
        seen: set[str] = set()
        left = [key]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += self._parents.get(one, ())
        return frozenset(seen)

    def related(self, one: str, other: str) -> bool:
        """Return whether two nodes share an ancestor or one is derived from the other."""
        return bool(self.ancestors(one) & self.ancestors(other))
