"""A store for planted runs."""

import pytest

from kernelwright.store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened
