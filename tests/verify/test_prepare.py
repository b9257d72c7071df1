"""A candidate may pack weights in `prepare(weights)`; the judge changes them and sees whether it follows."""

import pytest

from kernelwright.verify import Oracle, verify

RUN = "def run(x, packed):\n    return torch.softmax(x, -1) * packed\n"
HONEST = f"{RUN}def prepare(weights):\n    return weights['weight'].clone()\n"
STALE = (
    f"{RUN}kept = []\ndef prepare(weights):\n    kept.append(weights['weight'].clone())\n    return kept[0]\n"
)
CURIOUS = f"{RUN}def prepare(weights):\n    (weight,) = weights.values()\n    return weight.mul_(1.5) / 1.5\n"


@pytest.fixture(scope="module")
def oracle(problem):
    return Oracle(problem)


@pytest.mark.parametrize(
    ("body", "failure"),
    [(HONEST, ""), (STALE, "weights-followed"), (CURIOUS, "correct")],
    ids=["honest", "stale", "writes the weights"],
)
def test_packed_weights_must_follow(body, failure, problem, pool, make, oracle):
    found = verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle)
    assert found.failure == failure, found.findings


def test_without_the_check_stale_weights_get_through_one_call(problem, pool, make, oracle):
    body = STALE.replace("kept[0]", "kept[-1] if len(kept) > 9 else kept[0]")
    disabled = frozenset({"weights-followed"})
    assert (
        verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle).failure == "weights-followed"
    )
    found = verify(problem, *make(body), pool=pool, depth="screen", oracle=oracle, disabled=disabled)
    assert found.failure != "weights-followed"
