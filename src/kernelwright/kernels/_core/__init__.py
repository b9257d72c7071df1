"""What every family builds on: templates, discovery, the expression printer, vector math, the row engine."""

from .expression import C_TYPES, FLOATS, STORED, Term, Unprintable, literal, print_pointwise
from .families import Family, families, match_all
from .match import match_rows, row_template
from .template import KernelTemplate, Rendered, header, headers_of

__all__ = [
    "C_TYPES", "FLOATS", "STORED", "Family", "KernelTemplate", "Rendered", "Term", "Unprintable", "families",
    "header", "headers_of", "literal", "match_all", "match_rows", "print_pointwise", "row_template",
]  # fmt: skip
