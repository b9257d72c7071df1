"""Modules of the kernels beside the tests: what nvcc made of `kernels/*.cu` for sm_80, kept as PTX."""

import sys
from pathlib import Path

import pytest
from tests import translated
from tests.tools import require

from kernelwright.executor import Module

KERNELS = Path(__file__).parent / "kernels"
_TRITON = {}
"""Triton's modules, by name, as the files that jit imported them."""


def keep_compiler():
    """Keep what is imported of Triton by now: a file that jits says so once it has its imports."""
    _TRITON.update({name: sys.modules[name] for name in _imported()})


@pytest.fixture
def compiler_again(monkeypatch):
    """Undo what loading a candidate to be interpreted does to the process: tests share it."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for name in _imported():
        if name not in _TRITON and not name.startswith("triton._C"):
            monkeypatch.delitem(
                sys.modules, name
            )  # imported by another compiler, whose classes are not this one's
    for name, module in _TRITON.items():
        monkeypatch.setitem(sys.modules, name, module)


def _imported():
    return [name for name in sys.modules if name.split(".")[0] == "triton"]


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    """What PTX is translated to is built."""
    require("C++ compiler")


def prepared(name):
    """Return a module of the kernels in `kernels`; those that must give right values are built as users' are."""
    module = Module.load((KERNELS / name).read_text())
    with translated.built_by(translated.OPTIMISED if "right" in name else translated.QUICK):
        module.prepare()
    return module


OPTIMISED = ("test_built_once.py", "test_instructions.py", "test_rarer_forms.py")
"""Files whose kernels are built as users' are, as those that are kept as PTX: random instructions, among others."""


@pytest.fixture(scope="module", autouse=True)
def _built_quickly(request):
    judges = hasattr(request.module, "judging")  # in processes of their own, which know nothing of this
    as_users = judges or request.path.name in OPTIMISED
    with translated.built_by(translated.OPTIMISED if as_users else translated.QUICK):
        yield


@pytest.fixture(scope="session")
def right():
    return prepared("right.ptx")


@pytest.fixture(scope="session")
def faulty():
    return prepared("faulty.ptx")
