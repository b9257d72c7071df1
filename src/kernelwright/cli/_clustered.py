"""Flags of commands that can work on a cluster."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Parameter

from ._common import Common, Count, print_json

if TYPE_CHECKING:
    from ..cluster import Cluster, Event


@Parameter(name="*")
@dataclass(frozen=True)
class Clustered:
    """Where to evaluate, if not here."""

    cluster: str | None = None
    """Evaluate on a Ray cluster: `auto` for the one that this machine is part of, HOST:PORT or ray://HOST:PORT;
    docs/cluster.md."""
    cores: Count | None = None
    """On a cluster: cores of the processor for each evaluator; by default all that a node has."""

    @contextmanager
    def opened(self, device: str | None, common: Common) -> "Iterator[Cluster | None]":
        """Yield the cluster; None where none was asked for."""
        if self.cluster is None:
            yield None
            return
        from ..cluster import Cluster, check_address

        def follow(event: "Event") -> None:
            if common.json:
                place = event.place.model_dump(mode="json") if event.place else None
                print_json("cluster", kind=event.kind, message=event.message, place=place)
            else:
                print(f"cluster: {event.message}", file=sys.stderr, flush=True)

        with Cluster(
            check_address(self.cluster), device=device, cores=self.cores or 0, on_event=follow
        ) as cluster:
            yield cluster
