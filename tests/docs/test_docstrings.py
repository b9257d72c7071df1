"""Every example in a docstring is run."""

import doctest
import importlib
import pkgutil
from itertools import groupby
from pathlib import Path

import pytest

import kernelwright

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    m.name
    for m in pkgutil.walk_packages(kernelwright.__path__, "kernelwright.")
    if not m.name.endswith(("__main__", "_zygote"))
]


PACKAGES = {name: list(its) for name, its in groupby(MODULES, key=lambda name: name.split(".")[1])}


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_in_docstrings(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    modules = map(importlib.import_module, PACKAGES[package])
    failed = {m.__name__: doctest.testmod(m, optionflags=doctest.ELLIPSIS).failed for m in modules}
    assert not [name for name, count in failed.items() if count]


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = sum(len(t.examples) > 0 for m in MODULES[::10] for t in finder.find(importlib.import_module(m)))
    assert found >= 15
