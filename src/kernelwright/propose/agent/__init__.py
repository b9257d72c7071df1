"""Move → Reply by a coding agent: a program that reads, writes, runs commands and asks our judge.

_protocol.py        what an adapter must do; claude.py, codex.py, command.py: one file an agent
_choice.py          which agent, and whether it can be started
_workspace.py       the folder it works in, and what of it must stay as it was
_queue.py           how it asks for a judgement; _judge.py: who answers, outside
_attempt.py         one agent at work: its deadline, its end, its transcript
editor.py           one move; proposer.py: a first draft
"""

from ._choice import check_agent, make_agent
from ._protocol import Agent, Job, Spend
from .editor import AgentEditor
from .proposer import AgentProposer

__all__ = ["Agent", "AgentEditor", "AgentProposer", "Job", "Spend", "check_agent", "make_agent"]
