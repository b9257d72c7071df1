"""Modules of the kernels beside the tests: what nvcc made of `kernels/*.cu` for sm_80, kept as PTX."""

from pathlib import Path

import pytest
from tests.tools import require

from kernelwright.executor import Module

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="session", autouse=True)
def _compiler():
    """What PTX is translated to is built."""
    require("C++ compiler")


def prepared(name):
    module = Module.load((KERNELS / name).read_text())
    module.prepare()
    return module


@pytest.fixture(scope="session")
def right():
    return prepared("right.ptx")


@pytest.fixture(scope="session")
def faulty():
    return prepared("faulty.ptx")
