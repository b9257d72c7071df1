"""Links: what processes send each other, and how many bytes that is."""

from collections.abc import Sequence

import torch
import torch.distributed as dist


class Links:
    """The processes of a group as a grid, the last axis of neighbouring ranks; counts what this one sends.

    Args:
        sizes: The axes of the grid; their product is the size of the group.
        group: Of `torch.distributed`; all processes by default.

    Example:
        >>> Links.places(3, (2, 2))
        (1, 1)
    """

    def __init__(self, sizes: Sequence[int], group: dist.ProcessGroup | None = None) -> None:
        self.sizes, self.group = tuple(sizes), group
        self.rank = dist.get_rank(group)
        self.place = self.places(self.rank, self.sizes)
        self.sent_bytes = 0
        """Bytes that this process has sent to others."""

    @staticmethod
    def places(rank: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return where a rank stands on each axis."""
        found = []
        for size in reversed(sizes):
            rank, at = divmod(rank, size)
            found.append(at)
        return tuple(reversed(found))

    def along(self, axis: int) -> list[int]:
        """Return the ranks on an axis through this process, in their order."""
        found = []
        for at in range(self.sizes[axis]):
            rank = 0
            for i, size in enumerate(self.sizes):
                rank = rank * size + (at if i == axis else self.place[i])
            found.append(rank)
        return found

    def shift(self, tensors: Sequence[torch.Tensor], axis: int) -> list[torch.Tensor]:
        """Send tensors to the next process on an axis, and return what the one before has sent."""
        ranks, at = self.along(axis), self.place[axis]
        if len(ranks) == 1:
            return list(tensors)
        sent = [x.contiguous() for x in tensors]
        got = [torch.empty_like(x) for x in sent]
        self._swap([(ranks[(at + 1) % len(ranks)], x) for x in sent], [(ranks[at - 1], x) for x in got])
        return got

    def exchange(self, parts: Sequence[torch.Tensor], axis: int) -> list[torch.Tensor]:
        """Send a part to each process on an axis; return what each has for this one, all of one shape."""
        ranks = self.along(axis)
        whole = [x.contiguous() for x in parts]
        got = [x if rank == self.rank else torch.empty_like(x) for rank, x in zip(ranks, whole, strict=True)]
        others = [i for i, rank in enumerate(ranks) if rank != self.rank]
        self._swap([(ranks[i], whole[i]) for i in others], [(ranks[i], got[i]) for i in others])
        return got

    def _swap(self, out: list[tuple[int, torch.Tensor]], into: list[tuple[int, torch.Tensor]]) -> None:
        group = self.group
        asked = [dist.P2POp(dist.isend, x, group=group, group_peer=peer) for peer, x in out]
        asked += [dist.P2POp(dist.irecv, x, group=group, group_peer=peer) for peer, x in into]
        for work in dist.batch_isend_irecv(asked) if asked else ():
            work.wait()
        self.sent_bytes += sum(x.numel() * x.element_size() for _, x in out)
