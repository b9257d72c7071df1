"""Every example in a docstring is run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import kernelwright

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    m.name
    for m in pkgutil.walk_packages(kernelwright.__path__, "kernelwright.")
    if not m.name.endswith(("__main__", "_zygote"))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    outcome = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(len(t.examples) > 0 for m in MODULES[::10] for t in finder.find(importlib.import_module(m)))
    assert found >= 15
