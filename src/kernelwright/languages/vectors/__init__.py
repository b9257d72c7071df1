"""C++ over the vectors of a CPU: headers for kernels, and ATen's pointwise operators printed on them.

`vector.h` has vectors with math, loads and stores with tails; `traffic.h` memory that is asked for ahead; `rows.h`
passes over rows that reduce, split over threads; `parts.h` the two parts of a row that a rotary embedding turns.
"""

from ._expression import C_TYPES, FLOATS, STORED, Kind, Term, Unprintable, pointwise_names, print_pointwise
from ._headers import headers_of

__all__ = [
    "C_TYPES", "FLOATS", "STORED", "Kind", "Term", "Unprintable", "headers_of", "pointwise_names", "print_pointwise",
]  # fmt: skip
