"""Honest kernels that look like exploits are not rejected on a GPU, and every check can be made of them."""

import pytest
from tests.adversarial.honest import FOLDER, read_honest

pytestmark = pytest.mark.needs("GPU")


@pytest.mark.parametrize("honest", [read_honest(p) for p in sorted(FOLDER.glob("*.*"))], ids=lambda e: e.name)
def test_it_is_not_rejected(honest, judge, record_property):
    outcome = judge.judge(honest)
    record_property("outcome", str(outcome))
    assert (outcome.caught_by, outcome.unknown) == ("", ()), outcome
