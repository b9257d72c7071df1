"""What several families share: assembling a kernel file, finding arguments, printing pointwise trees."""

from .dialect import Dialect
from .graphs import Tree, only_output, reach, slot, slots
from .printer import Printer
from .source import assemble

__all__ = ["Dialect", "Printer", "Tree", "assemble", "only_output", "reach", "slot", "slots"]
