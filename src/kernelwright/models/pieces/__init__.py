"""Graph of Dynamo → the same graph with kernels in its regions.

Imports torch and the standard library only, because it is copied unchanged into every program of a model whose graph
breaks, and so into its package.
"""

from ._form import RegionForm, form_of_lines, form_of_part, operator_of
from ._graph import Capture, captured_program, check_graph, exported, is_assertion
from ._model import Pieces
from ._print import Printed, Unprintable, check_printable, expression, is_random, listed, printed
from ._serve import Region, Site, Use, served_graph

__all__ = [
    "Capture",
    "Pieces",
    "Printed",
    "Region",
    "RegionForm",
    "Site",
    "Unprintable",
    "Use",
    "captured_program",
    "check_graph",
    "check_printable",
    "exported",
    "expression",
    "form_of_lines",
    "form_of_part",
    "is_assertion",
    "is_random",
    "listed",
    "operator_of",
    "printed",
    "served_graph",
]
