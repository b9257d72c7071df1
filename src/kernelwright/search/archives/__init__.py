"""What strategies remember: a population, a grid, a tree, a graph, a queue. One file per structure."""

from ._scored import Scored
from .behaviour import Behaviour, behaviour_of
from .graph import Graph
from .grid import Grid
from .population import Population
from .queue import Ball, NetQueue, source_distance
from .tree import Node, Tree

__all__ = [
    "Ball", "Behaviour", "Graph", "Grid", "NetQueue", "Node", "Population", "Scored", "Tree", "behaviour_of",
    "source_distance",
]  # fmt: skip
