"""Language models as proposers and editors: roles, their prompts, and lenient parsers.

prompts/*.md.j2     the prompt of each role
_context.py         the part that is the same in a run: task, device, languages, exemplars, lessons
_replies.py         answers → files, edits, spaces; _answers.py: answers in JSON
_proposals.py       drafts → candidates and templates
editor.py           one move; proposer.py: a greedy sequence of moves
"""

from ._prompts import Prompts
from .editor import ROLES, LLMEditor, Role
from .proposer import LLMProposer

__all__ = ["ROLES", "LLMEditor", "LLMProposer", "Prompts", "Role"]
