"""Request → Candidates and Templates: what should be tried next. One file a proposer."""

from ._protocol import Proposal, Proposer, Request, Template

__all__ = ["Proposal", "Proposer", "Request", "Template"]
