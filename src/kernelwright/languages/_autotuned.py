"""Triton's autotuners where nothing is timed: they run one configuration, that of the smallest blocks.

Covers: `early_config_prune`, which leaves out what does not suit; the configuration's `pre_hook`.
Does not cover: the other configurations; `perf_model`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any


def untimed(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `Autotuner.run` so that it chooses without timing anything."""

    @functools.wraps(run)
    def run_one(self: Any, *arguments: Any, **named: Any) -> Any:
        declared = self.configs
        given = {**dict(zip(self.arg_names, arguments, strict=False)), **named}
        prune = getattr(self, "early_config_prune", None)
        suiting = prune(declared, given, **named) if prune else declared
        self.configs = [min(suiting or declared, key=block_of)]
        try:
            return run(self, *arguments, **named)
        finally:
            self.configs = declared

    return run_one


def block_of(config: Any) -> int:
    """Return the product of a configuration's numbers, which its code and its compilation grow with."""
    return math.prod(v for v in config.kwargs.values() if type(v) is int and v > 0)
