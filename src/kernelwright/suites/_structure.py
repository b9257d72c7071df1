"""Problems whose data is no list of tensors: flattened to one, and put back into its structure before a call."""

from pathlib import Path

from ..errors import TaskError
from ..records import Candidate, SourceFile, Split, Task
from ..tasks import Problem

PROBLEM = "problem.py"
"""The file that defines `kw_data(tensors)` and `Model`."""
FLAT = '''
import dataclasses

import torch


def kw_parts(value):
    """Return the parts by name of what has parts: a dictionary, a sequence, a module, a data class."""
    if isinstance(value, dict):
        return value
    if isinstance(value, (tuple, list)):
        return dict(enumerate(value))
    if isinstance(value, torch.nn.Module) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return vars(value)
    return None


def kw_packed(value):
    """Whether a tensor has two 4-bit floats in a byte: torch computes nothing with them, so bytes are passed."""
    return value.dtype is getattr(torch, "float4_e2m1fn_x2", None)


def kw_flat(value):
    if isinstance(value, torch.Tensor):
        return [value.view(torch.uint8) if kw_packed(value) else value]
    return [one for part in (kw_parts(value) or {}).values() for one in kw_flat(part)]
'''
"""Lists the tensors in a benchmark's data: what is passed to a kernel of ours."""
STRUCTURE = f'''
import copy
import random
{FLAT}

def kw_fixed(value):
    """Whether something besides tensors is in it."""
    parts = kw_parts(value)
    if parts is not None:
        return any(map(kw_fixed, parts.values()))
    return value is not None and not isinstance(value, torch.Tensor)


def kw_filled(like, tensors):
    if isinstance(like, torch.Tensor):
        return next(tensors).view(like.dtype) if kw_packed(like) else next(tensors)
    parts = kw_parts(like)
    if parts is None:
        return like
    filled = {{name: kw_filled(part, tensors) for name, part in parts.items()}}
    if isinstance(like, dict):
        return type(like)(filled)
    if isinstance(like, (tuple, list)):
        return type(like)(filled.values())
    made = copy.copy(like)
    made.__dict__.update(filled)
    return made


def kw_served(like, tensors):
    """Put tensors into the structure; what is no tensor is as at the declared sizes, so that others are declined."""
    if kw_fixed(like) and [t.shape for t in kw_flat(like)] != [t.shape for t in tensors]:
        raise NotImplementedError("Unsupported: other sizes than those that its data was made for")
    return kw_filled(like, iter(tensors))


def get_init_inputs():
    return []
'''
"""What a problem's file needs of it."""


_PLAIN = """from problem import kw_data
from submission import {symbol}


def run(*tensors):
    data = kw_data(tensors)
    return {call}
"""
_EXECUTED = """from kernelwright.executor.python import launching
from problem import kw_answered, kw_data

with launching():
    from submission import {symbol}


def run(*tensors):
    data = kw_data(tensors)
    with launching():
        return kw_answered({call}, data)
"""


def calling(task: Task, file: Path, symbol: str, call: str) -> Candidate:
    """Return a candidate that calls a finished kernel on the data as the benchmark passes it.

    Where the reference is executed, `call` is what is called, and a kernel's launches are interpreted or executed too.

    Args:
        task: What it is for; its reference defines `kw_data(tensors)`.
        file: The kernel's Python file.
        symbol: What the file has to define; of several, their names with commas between.
        call: An expression of `symbol` and `data`.

    Raises:
        TaskError: the file does not define the symbol.
    """
    text = file.read_text(errors="replace")
    if missing := [one for one in symbol.split(", ") if one not in text]:
        raise TaskError(f"{file} defines no {missing[0]!r}")
    executed = task.reference.executed
    entry = (_EXECUTED if executed else _PLAIN).format(symbol=symbol, call=call)
    sources = (
        SourceFile(path="entry.py", text=entry),
        SourceFile(path="submission.py", text=text),
        *Problem(task).sources(task.split(Split.SEARCH)[0]).files,
    )
    language = "triton" if executed and "triton" in text else "torch"
    return Candidate(sources=sources, language=language, entry="entry.py:run")
