"""Problems whose data is no list of tensors: flattened to one, and put back into its structure before a call."""

from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Split, Task
from ..tasks import Problem

PROBLEM = "problem.py"
"""The file that defines `kw_data(tensors)` and `Model`."""
STRUCTURE = '''
import random

import torch


def kw_flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [one for part in parts for one in kw_flat(part)]


def kw_fixed(value):
    """Whether something besides tensors is in it."""
    if isinstance(value, (dict, tuple, list)):
        return any(map(kw_fixed, value.values() if isinstance(value, dict) else value))
    return value is not None and not isinstance(value, torch.Tensor)


def kw_filled(like, tensors):
    if isinstance(like, torch.Tensor):
        return next(tensors)
    if isinstance(like, dict):
        return {name: kw_filled(part, tensors) for name, part in like.items()}
    if isinstance(like, (tuple, list)):
        return type(like)([kw_filled(part, tensors) for part in like])
    return like


def kw_served(like, tensors):
    """Put tensors into the structure; what is no tensor is as at the declared sizes, so that others are declined."""
    if kw_fixed(like) and [t.shape for t in kw_flat(like)] != [t.shape for t in tensors]:
        raise NotImplementedError("Unsupported: other sizes than those that its data was made for")
    return kw_filled(like, iter(tensors))


def get_init_inputs():
    return []
'''
"""What a problem's file needs of it."""


def calling(task: Task, file: Path, symbol: str, call: str) -> Candidate:
    """Return a candidate that calls a finished kernel on the data as the benchmark passes it.

    Args:
        task: What it is for; its reference defines `kw_data(tensors)`.
        file: The kernel's Python file.
        symbol: What the file has to define.
        call: An expression of `symbol` and `data`.

    Raises:
        TaskError: the file does not define the symbol.
    """
    text = file.read_text(errors="replace")
    if symbol not in text:
        raise TaskError(f"{file} defines no {symbol!r}")
    entry = (
        f"from problem import kw_data\nfrom submission import {symbol}\n\n\n"
        f"def run(*tensors):\n    data = kw_data(tensors)\n    return {call}\n"
    )
    sources = (
        SourceFile(path="entry.py", text=entry),
        SourceFile(path="submission.py", text=text),
        *Problem(task).sources(task.split(Split.SEARCH)[0]).files,
    )
    return Candidate(sources=sources, language="torch", entry="entry.py:run")
