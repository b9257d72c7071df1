"""Every test starts from the same random state; what was skipped is told at the end of a run."""

import random
from collections import Counter

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_random_state():
    random.seed(0)
    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter):
    """Say which promises this run could not test, each with its reason and how many tests wait for it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("promises not tested here")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{reason} ({count})")
