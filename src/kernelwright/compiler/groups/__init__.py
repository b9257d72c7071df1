"""Program → work-group launches: what the printers of OpenCL C and WGSL share.

A `Launch` is one kernel of the device. Its outermost parallel loops become work-groups, its vector loops the
items of a group; an accumulator that a vector loop folds into is kept by every item, merged through shared
memory by the monoid's `merge`, and then available to all. A kernel without vector loops runs one item per
iteration. A `Dialect` defines how a language writes types, numbers, loads, loops and barriers.
"""

from ._dialect import CALLS, Dialect, Options, Rule, Terms
from ._functions import needed
from ._launches import Launch, iterations, launches, shared
from ._names import renamed
from ._print import Body, print_program

__all__ = [
    "CALLS", "Body", "Dialect", "Launch", "Options", "Rule", "Terms", "iterations", "launches", "needed",
    "print_program", "renamed", "shared",
]  # fmt: skip
