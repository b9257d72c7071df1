"""One judge on the GPU for all tests here: workers, the reference's answers and the bench are kept between them."""

import pytest
from tests.adversarial.judge import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory):
    with Judge(tmp_path_factory.mktemp("kernelwright"), "cuda:0") as judge:
        yield judge
