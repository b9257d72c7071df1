import pytest

import kernelwright.api.judge  # noqa: F401  before a test replaces what it imports
from kernelwright import flow


@pytest.fixture
def any_target(monkeypatch):
    """Let a target be no task at all: these tests are of flags."""
    monkeypatch.setattr("kernelwright.cli._common.Taken.task", lambda _, target, **__: target)


@pytest.fixture
def asked(any_target, monkeypatch):
    """What `optimize` was called with; it goes no further."""
    given = {}

    def optimize(target, **arguments):
        given.update(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(flow, "optimize", optimize)
    return given
