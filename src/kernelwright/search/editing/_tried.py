"""What has been tried, so that nothing is requested or evaluated twice."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...propose import Move, Proposal
from ...records import Candidate
from ..archives import Scored
from ._canonical import canonical_key

_MOST_LINES = 12


class Tried:
    """Every candidate of a run, by its canonical key and by its main parent."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        """By canonical key: the key of the first candidate with it."""
        self._canonical_key: dict[str, str] = {}
        """By key, computed once."""
        self._lines: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """By main parent, empty for drafts: a line for each candidate made from it."""

    def new(self, proposals: Iterable[Proposal]) -> tuple[Proposal, ...]:
        """Record proposals; return those that are new."""
        new = []
        for proposal in proposals:
            one = _first(proposal)
            if self._like(one) not in self._seen:
                self._seen[self._like(one)] = one.key
                new.append(proposal)
        return tuple(new)

    def why_not(self, proposals: Sequence[Proposal]) -> str:
        """Explain why nothing in a reply was new."""
        one = _first(proposals[0])
        same = self._seen.get(self._like(one))
        return (
            f"the same as {same}, which was tried before" if same else f"{one.language} cannot be used here"
        )

    def add(self, found: Scored) -> None:
        """Record the outcome of a candidate."""
        candidate = found.evaluation.candidate
        self._seen.setdefault(self._like(candidate), candidate.key)
        parents = found.move.parents if found.move is not None else ()
        made_of = parents[0].candidate.key if parents else ""
        self._lines[made_of][found.family] = f"{candidate.reason or candidate.key}: {found.told}"

    def failed(self, move: Move, failure: str) -> None:
        """Record that a move brought nothing."""
        made_of = move.parents[0].candidate.key if move.parents else ""
        self._lines[made_of][f"move {move.number}"] = f"{move.goal or move.operator}: {failure}"

    def lines(self, move: Move) -> tuple[str, ...]:
        """Return the earlier candidates made from a move's main parent, the latest last."""
        made_of = move.parents[0].candidate.key if move.parents else ""
        return tuple(self._lines[made_of].values())[-_MOST_LINES:]

    def _like(self, candidate: Candidate) -> str:
        if candidate.key not in self._canonical_key:
            self._canonical_key[candidate.key] = canonical_key(candidate)
        return self._canonical_key[candidate.key]


def _first(proposal: Proposal) -> Candidate:
    return proposal if isinstance(proposal, Candidate) else proposal.render(proposal.default())
