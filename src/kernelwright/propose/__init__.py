"""Request → Candidates and Templates to try. One file per proposer."""

from ._protocol import Editor, Move, Proposal, Proposer, Reply, Request, Template
from ._template import SourceTemplate

__all__ = ["Editor", "Move", "Proposal", "Proposer", "Reply", "Request", "SourceTemplate", "Template"]
