"""Every test starts from the same random state, so that a failure can be repeated."""

import random

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_random_state():
    random.seed(0)
    torch.manual_seed(0)
