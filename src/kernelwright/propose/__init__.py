"""Request → Candidates and Templates: what should be tried next. One file a proposer."""

from ._protocol import Editor, Move, Proposal, Proposer, Reply, Request, Template
from ._template import SourceTemplate

__all__ = ["Editor", "Move", "Proposal", "Proposer", "Reply", "Request", "SourceTemplate", "Template"]
