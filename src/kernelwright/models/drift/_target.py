"""Targets of the command line: a file and the function in it that makes a model."""

import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import InputError, known_names
from ...tasks.forms._local_imports import local_imports
from ...tasks.forms._source import read_text, run_source
from ._decoder import Deployment, deployment_of
from ._serve import Requests

BUILD = "build"
"""The function that makes a model where no symbol is named."""


def load_deployment(target: str) -> Deployment:
    """Load `file.py:symbol`: a function without arguments that returns a model, a `Deployment` or `(model, inputs)`.

    Args:
        target: `file.py:symbol`, or `file.py` for its function `build`.

    Raises:
        InputError: the file cannot be used, has no such symbol, or the function returns no model.
    """
    head, colon, symbol = target.rpartition(":")
    path, symbol = (Path(head), symbol) if colon and head.endswith(".py") else (Path(target), BUILD)
    if path.suffix != ".py":
        raise InputError(f"{target!r} is no model; expected file.py:symbol, a function that returns one")
    text = read_text(path, "model", "a .py file with a function that returns a model")
    module = run_source(text, str(path), local_imports(path, text))
    made: Any = getattr(module, symbol, None)
    if made is None:
        names = [
            n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        raise InputError(f"{path} has no {symbol!r}; {known_names(symbol, names)}")
    if inspect.isfunction(made):
        try:
            made = made()
        except Exception as error:  # the user's code: whatever it raises is said in one sentence
            raise InputError(f"{target}() raised {type(error).__name__}: {error}") from error
    found = deployment_of(made)
    if isinstance(found.model, nn.Module):
        found.model.eval()
    return found


def load_requests(path: Path, steps: int) -> Requests:
    """Read requests: a JSON list of lists of tokens.

    Args:
        path: The file.
        steps: Tokens at the end of each that are decoded one by one.

    Raises:
        InputError: it is no such list.
    """
    text = read_text(path, "requests", "a .json file with a list of lists of tokens")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}; expected a list of lists of tokens") from None
    good = (
        isinstance(rows, Sequence)
        and not isinstance(rows, str)
        and all(
            isinstance(row, list) and all(type(token) is int and token >= 0 for token in row) for row in rows
        )
    )
    if not good:
        raise InputError(
            f"{path} holds {str(rows)[:60]!r}; expected a list of lists of tokens, whole numbers from 0 on"
        )
    return Requests(tuple(torch.tensor(row, dtype=torch.int64) for row in rows), steps)
