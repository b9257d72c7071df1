"""Move → Reply by a coding agent: a program that reads, writes, runs commands and asks our judge.

_protocol.py        the adapter interface; claude.py, codex.py, command.py: one file per agent
_choice.py          which agent, and whether it can be started
_workspace.py       the folder it works in, and which of its files must not change
_queue.py           how it requests a judgement; _judge.py: answers from outside the workspace
_attempt.py         one running agent: its deadline, its end, its transcript
editor.py           one move; proposer.py: a first draft
"""

from ._choice import check_agent, make_agent
from ._protocol import Agent, Job, Spend
from .editor import AgentEditor
from .proposer import AgentProposer

__all__ = ["Agent", "AgentEditor", "AgentProposer", "Job", "Spend", "check_agent", "make_agent"]
