"""Interleaved tuners of one template: one for all search workloads together, one for each of them.

Every trial is timed on every workload, so each tuner also learns from the others' trials.
"""

import json
from collections.abc import Callable, Mapping

from ...records import Configuration
from ..tuners import Tuner

TOGETHER = ""
"""The focus on all search workloads together."""


class Focused:
    """Round-robin over tuners with different focus; with one workload there is a single tuner."""

    def __init__(self, make: Callable[[], Tuner]) -> None:
        self._make = make
        self._tuners = {TOGETHER: make()}
        self._told: list[tuple[Configuration, Mapping[str, float | None]]] = []
        self._asked: set[str] = set()
        self._turn = 0

    def ask(self) -> Configuration | None:
        """Return the next configuration, from each focus in turn. None when the space is used up."""
        focuses = list(self._tuners)
        for _ in focuses:
            tuner = self._tuners[focuses[self._turn % len(focuses)]]
            self._turn += 1
            while (configuration := tuner.ask()) is not None:
                if self._is_new(configuration):
                    return configuration
        return None

    def tell(self, configuration: Configuration, costs: Mapping[str, float | None]) -> None:
        """Report a configuration's cost by focus; a new focus starts with all earlier reports."""
        self._is_new(configuration)
        for focus in costs if len(costs) > 2 else ():
            if focus not in self._tuners:
                self._tuners[focus] = self._make()
                for earlier, known in self._told:
                    self._tuners[focus].tell(earlier, known.get(focus))
        self._told.append((configuration, costs))
        for focus, tuner in self._tuners.items():
            tuner.tell(configuration, costs.get(focus))

    def _is_new(self, configuration: Configuration) -> bool:
        """Return whether a configuration is asked for the first time, and remember it."""
        name = json.dumps(configuration, sort_keys=True)
        new = name not in self._asked
        self._asked.add(name)
        return new
