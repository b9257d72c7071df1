"""One small native model, and its noise, for all tests of drift."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch
from tests.models.drift.tiny import Sizes, Tiny

from kernelwright.models.drift import Noise, Requests, noise_of, own_text, serve
from kernelwright.models.drift._serve import DEPLOYED

SMALL = Sizes(vocab=32, width=24, heads=4, groups=2, layers=3, hidden=32)
LATE = 6
"""Where drifts that begin late begin."""


@dataclass(frozen=True)
class Measured:
    model: Tiny
    requests: Requests
    noise: Noise


@contextmanager
def one_thread():
    """Small products are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def measured(dtype):
    model = Tiny(SMALL, seed=1).to(dtype)
    with one_thread():
        requests = own_text(model, (4, 9), 3, seed=1)
        noise = noise_of(
            model, lambda model, scene: serve(model, requests, scene), DEPLOYED, draws=10, seed=1
        )
    return Measured(model, requests, noise)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


@pytest.fixture(scope="session")
def single():
    return measured(torch.float32)


@pytest.fixture(scope="session")
def half():
    return measured(torch.bfloat16)
