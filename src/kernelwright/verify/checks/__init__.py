"""The checks, one file each, in the order they run: cheapest first.

`CHECKS` look at every observed call. `SWEEPS` make calls of their own on every workload, `PROBES` on one.
"""

from .._protocol import Check, Probe
from .aliasing import Aliasing
from .arguments_only import ArgumentsOnly
from .calls import Calls
from .constants import ConstantsFollowed
from .correct import Correct
from .counters import CountersMoved
from .deployment import Deployment
from .distribution import Distribution
from .earlier_outputs import EarlierOutputs
from .endurance import Endurance
from .fresh_content import FreshContent
from .guards import Guards
from .inputs import InputsUnchanged
from .kept import NothingKept
from .layout import Layout
from .modes import Modes
from .one_element import OneElement
from .process import ProcessClean, ProcessesGone
from .relations import Relations
from .repeatable import Repeatable
from .returns import Returns
from .sanitised import Sanitised
from .state import StateUnchanged
from .streams import StreamOrdered
from .weights import WeightElementsFollowed, WeightsFollowed

__all__ = ["CHECKS", "LAST", "OF_RANDOM", "PROBES", "SWEEPS", "check_names"]

CHECKS: tuple[Check, ...] = (
    Returns(), Layout(), Aliasing(), Guards(), Correct(), InputsUnchanged(), StateUnchanged(),
)  # fmt: skip
PROBES: tuple[Probe, ...] = (
    ArgumentsOnly(), EarlierOutputs(), FreshContent(), StreamOrdered(), WeightsFollowed(), OneElement(),
    ConstantsFollowed(), WeightElementsFollowed(), Repeatable(), NothingKept(), CountersMoved(), Endurance(),
    Deployment(), Relations(), Modes(), Calls(), Sanitised(), ProcessClean(),
)  # fmt: skip
SWEEPS: tuple[Probe, ...] = (Distribution(),)
LAST: tuple[Probe, ...] = (ProcessesGone(),)
"""Look at the workers once all workloads were called."""
OF_RANDOM = frozenset({"arguments-only", "modes", "process-clean"})
"""The probes that ask for no particular values, and so for random outputs too."""


def check_names() -> tuple[str, ...]:
    """Name every check that can be switched off, in the order they run."""
    return tuple(dict.fromkeys((*(c.name for c in CHECKS), *(p.name for p in (*SWEEPS, *PROBES, *LAST)))))
